//! weave TREE PART FILE [...] [-- NUMBER ...]: puts changes into these files below TREE, all at
//! once. Change number n takes effect where `crate::mutant::on(n)` says so, so that one build
//! serves them all. PART is k/n: every nth change, beginning with the kth (from 0). NUMBERs are
//! left out.
//!
//! The changes are those of cargo-mutants: another operator, no `!`, a guard that always or never
//! holds, an arm of a match that is not there, and a function that at once returns nothing, `true`,
//! `false`, 0, 1, `None` or `Ok(())`. Left out are `const fn` and conditions with `let`.
//!
//! Prints `N<TAB>FILE:LINE:COLUMN: WHAT` for each.

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A piece of the source, in bytes.
type Piece = (usize, usize);

/// What is written instead of a piece, or in front of its first byte.
enum Edit {
    Insert(String),
    Unary { end: usize, operand: Piece, operator: String, number: usize },
    Binary { end: usize, left: Piece, operator: String, right: Piece, others: Vec<(usize, &'static str)> },
    Guard { end: usize, values: Vec<(usize, &'static str)> },
}

struct Weaver<'a> {
    file: &'a str,
    source: &'a str,
    part: (usize, usize),
    left_out: &'a HashSet<usize>,
    /// Changes found so far, of all files.
    found: usize,
    /// By the byte where they begin; the outer before the inner.
    edits: BTreeMap<usize, Vec<Edit>>,
    function: String,
    in_const: bool,
}

fn piece(node: &impl Spanned) -> Piece {
    let range = node.span().byte_range();
    (range.start, range.end)
}

fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

/// What cargo-mutants makes of an operator.
fn others(operator: &str) -> &'static [&'static str] {
    match operator {
        "==" => &["!="],
        "!=" => &["=="],
        "&&" => &["||"],
        "||" => &["&&"],
        "<" => &["==", ">", "<="],
        ">" => &["==", "<", ">="],
        "<=" => &[">"],
        ">=" => &["<"],
        "+" => &["-", "*"],
        "-" | "*" => &["+", "/"],
        "/" => &["%", "*"],
        "%" => &["/", "+"],
        "<<" => &[">>"],
        ">>" => &["<<"],
        "&" => &["|", "^"],
        "|" => &["&", "^"],
        "^" => &["|", "&"],
        "+=" => &["-=", "*="],
        "-=" | "*=" => &["+=", "/="],
        "/=" => &["%=", "*="],
        "%=" => &["/=", "+="],
        "<<=" => &[">>="],
        ">>=" => &["<<="],
        "&=" => &["|="],
        "|=" => &["&="],
        "^=" => &["|=", "&="],
        _ => &[],
    }
}

/// What a function may return at once.
fn values(output: &syn::ReturnType) -> &'static [&'static str] {
    let syn::ReturnType::Type(_, of) = output else { return &[""] };
    let syn::Type::Path(of) = &**of else { return &[] };
    let Some(last) = of.path.segments.last() else { return &[] };
    let of_unit = matches!(&last.arguments, syn::PathArguments::AngleBracketed(of)
        if matches!(of.args.first(), Some(syn::GenericArgument::Type(syn::Type::Tuple(unit))) if unit.elems.is_empty()));
    match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => &["0", "1"],
        "Option" => &["None"],
        "Result" if of_unit => &["Ok(())"],
        _ => &[],
    }
}

impl Weaver<'_> {
    /// The number of a change here, if it is to be put in.
    fn number(&mut self, node: &impl Spanned, what: &str) -> Option<usize> {
        if self.in_const {
            return None;
        }
        let (at, (k, n)) = (self.found, self.part);
        self.found += 1;
        if at % n != k || self.left_out.contains(&at) {
            return None;
        }
        let start = node.span().start();
        println!("{at}\t{}:{}:{}: {what} in {}", self.file, start.line, start.column + 1, self.function);
        Some(at)
    }

    fn put(&mut self, at: usize, edit: Edit) {
        self.edits.entry(at).or_default().push(edit);
    }

    fn enter(&mut self, signature: &syn::Signature, block: &syn::Block, inside: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.in_const, signature.constness.is_some());
        let name = std::mem::replace(&mut self.function, signature.ident.to_string());
        if !block.stmts.is_empty() {
            for value in values(&signature.output) {
                if let Some(number) = self.number(signature, &format!("return {value}")) {
                    let text = format!("if crate::mutant::on({number}) {{ return {value}; }} ");
                    self.put(piece(block).0 + 1, Edit::Insert(text));
                }
            }
        }
        inside(self);
        (self.in_const, self.function) = (outer, name);
    }

    fn render(&self, (from, to): Piece, outer: usize) -> String {
        let mut text = String::new();
        let (mut at, mut outer) = (from, outer);
        while let Some((&start, edits)) = self.edits.range(at..to).next() {
            text += &self.source[at..start];
            at = start;
            for (nth, edit) in edits.iter().enumerate().skip(std::mem::take(&mut outer)) {
                match edit {
                    Edit::Insert(what) => text += what,
                    Edit::Unary { end, operand, operator, number } => {
                        let inner = self.render(*operand, 0);
                        text += &format!(
                            "(if crate::mutant::on({number}) {{ {inner} }} else {{ {operator}{inner} }})"
                        );
                        at = *end;
                    }
                    Edit::Binary { end, left, operator, right, others } => {
                        let inside = if left.0 == start { nth + 1 } else { 0 };
                        let (left, right) = (self.render(*left, inside), self.render(*right, 0));
                        text += &binary(&left, operator, &right, others);
                        at = *end;
                    }
                    Edit::Guard { end, values } => {
                        let inner = self.render((start, *end), nth + 1);
                        text += "(";
                        for (number, value) in values {
                            text += &match *value {
                                "true" => format!("crate::mutant::on({number}) || "),
                                _ => format!("!crate::mutant::on({number}) && "),
                            };
                        }
                        text += &format!("({inner}))");
                        at = *end;
                    }
                }
                if at != start {
                    break;
                }
            }
            if at == start {
                // Only insertions: what they stand before follows.
                let next = self.source[start..].chars().next().map_or(1, char::len_utf8);
                text += &self.source[start..start + next];
                at = start + next;
            }
        }
        text += &self.source[at..to];
        text
    }
}

/// `left operator right`, or with another operator.
fn binary(left: &str, operator: &str, right: &str, others: &[(usize, &'static str)]) -> String {
    let lazy = matches!(operator, "&&" | "||");
    let assigns = operator.ends_with('=') && !matches!(operator, "==" | "!=" | "<=" | ">=");
    let name = if lazy { "left" } else { left };
    let mut text = String::new();
    for (number, other) in others {
        text += &format!("if crate::mutant::on({number}) {{ {name} {other} {right} }} else ");
    }
    text += &format!("{{ {name} {operator} {right} }}");
    match (lazy, assigns) {
        // Chains of these are long, and would double with each link.
        (true, _) => format!("({{ let left: bool = {left}; {text} }})"),
        (_, true) => text,
        _ => format!("({text})"),
    }
}

impl<'a> Visit<'a> for Weaver<'a> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.enter(&item.sig, &item.block, |weaver| visit::visit_item_fn(weaver, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.enter(&item.sig, &item.block, |weaver| visit::visit_impl_item_fn(weaver, item));
    }

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        // Tests are not what is tried.
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}

    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}

    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_binary(&mut self, both: &'a syn::ExprBinary) {
        if !has_let(&both.left) && !has_let(&both.right) {
            let ((start, end), (from, to)) = (piece(both), piece(&both.op));
            let operator = self.source[from..to].to_string();
            let mut numbered = Vec::new();
            for other in others(&operator) {
                if let Some(number) = self.number(&both.op, &format!("{operator} is {other}")) {
                    numbered.push((number, *other));
                }
            }
            if !numbered.is_empty() {
                let (left, right) = (piece(&both.left), piece(&both.right));
                self.put(start, Edit::Binary { end, left, operator, right, others: numbered });
            }
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        if matches!(unary.op, syn::UnOp::Not(_))
            && let Some(number) = self.number(unary, "no !")
        {
            let (start, end) = piece(unary);
            self.put(start, Edit::Unary { end, operand: piece(&*unary.expr), operator: "!".into(), number });
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, matched: &'a syn::ExprMatch) {
        // What is left must catch everything.
        let catches =
            matched.arms.iter().any(|arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none());
        for arm in &matched.arms {
            if catches
                && arm.guard.is_none()
                && !matches!(arm.pat, syn::Pat::Wild(_))
                && let Some(number) = self.number(&arm.pat, "no arm")
            {
                self.put(piece(&arm.pat).1, Edit::Insert(format!(" if !crate::mutant::on({number})")));
            }
        }
        visit::visit_expr_match(self, matched);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = arm.guard.as_ref().filter(|(_, guard)| !has_let(guard)) {
            let mut numbered = Vec::new();
            for value in ["true", "false"] {
                if let Some(number) = self.number(&**guard, &format!("guard is {value}")) {
                    numbered.push((number, value));
                }
            }
            if !numbered.is_empty() {
                let (start, end) = piece(&**guard);
                self.put(start, Edit::Guard { end, values: numbered });
            }
        }
        visit::visit_arm(self, arm);
    }
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut halves = arguments.split(|argument| argument == "--");
    let ([tree, part, files @ ..], numbers) = (halves.next().unwrap_or(&[]), halves.next().unwrap_or(&[]))
    else {
        return Err("usage: weave TREE K/N FILE [...] [-- NUMBER ...]".into());
    };
    let bad_part = || format!("part '{part}': expected K/N with K below N");
    let (k, n) = part.split_once('/').ok_or_else(bad_part)?;
    let (k, n) = (k.parse().map_err(|_| bad_part())?, n.parse().map_err(|_| bad_part())?);
    if k >= n {
        return Err(bad_part());
    }
    let mut left_out = HashSet::new();
    for number in numbers {
        left_out.insert(number.parse().map_err(|_| format!("'{number}': expected the number of a change"))?);
    }
    let mut found = 0;
    for file in files {
        let path = format!("{tree}/{file}");
        let source = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let parsed = syn::parse_file(&source).map_err(|error| format!("{path}: {error}"))?;
        let mut weaver = Weaver {
            file,
            source: &source,
            part: (k, n),
            left_out: &left_out,
            found,
            edits: BTreeMap::new(),
            function: String::new(),
            in_const: false,
        };
        weaver.visit_file(&parsed);
        found = weaver.found;
        let woven = weaver.render((0, source.len()), 0);
        std::fs::write(&path, woven).map_err(|error| format!("{path}: {error}"))?;
    }
    eprintln!("weave: {found} changes in all");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weave: {error}");
            ExitCode::from(2)
        }
    }
}
