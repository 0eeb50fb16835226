//! weave LIST TREE PART [NUMBER ...]: puts the changes of a list (`cargo mutants --list --json`) into the files below TREE, all at once. Change number n (its place in the list, from
//! 1) takes effect where `crate::mutant::on(n)` says so, so that one build serves them all. PART is k/n: every nth change, beginning with the kth (from 0). NUMBERs are left out.
//!
//! Prints `N<TAB>NAME` for each change that is in, and `-<TAB>NAME` for those that cannot be put in so: in `const fn`, beside `let` in a condition, fields of structures.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::ExitCode;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A change of the list.
struct Change {
    number: usize,
    genre: String,
    replacement: String,
    name: String,
}

/// Line and column, both from 1, as the list has them.
type Place = (u64, u64);

/// A piece of the source, in bytes.
type Piece = (usize, usize);

/// What is written instead of a piece, or in front of its first byte.
enum Edit {
    Insert(String),
    Unary { end: usize, operand: Piece, operator: String, number: usize },
    Binary { end: usize, left: Piece, operator: String, right: Piece, others: Vec<(usize, String)> },
    Guard { end: usize, values: Vec<(usize, String)> },
}

struct Weaver<'a> {
    source: &'a str,
    changes: &'a HashMap<Place, Vec<Change>>,
    /// By the byte where they begin; the outer before the inner.
    edits: BTreeMap<usize, Vec<Edit>>,
    woven: HashSet<usize>,
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

impl Weaver<'_> {
    /// The changes of a genre that begin where this node does: numbers and replacements.
    fn take(&mut self, node: &impl Spanned, genre: &str) -> Vec<(usize, String)> {
        if self.in_const {
            return Vec::new();
        }
        let start = node.span().start();
        let here = self.changes.get(&(start.line as u64, start.column as u64 + 1));
        let found: Vec<_> = here
            .into_iter()
            .flatten()
            .filter(|change| change.genre == genre)
            .map(|change| (change.number, change.replacement.clone()))
            .collect();
        self.woven.extend(found.iter().map(|(number, _)| number));
        found
    }

    fn put(&mut self, at: usize, edit: Edit) {
        self.edits.entry(at).or_default().push(edit);
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block, inside: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.in_const, signature.constness.is_some());
        if let Some(first) = block.stmts.first() {
            for (number, value) in self.take(first, "FnValue") {
                let text = format!("if crate::mutant::on({number}) {{ return {value}; }} ");
                self.put(piece(block).0 + 1, Edit::Insert(text));
            }
        }
        inside(self);
        self.in_const = outer;
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
                            text += &match value.as_str() {
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
fn binary(left: &str, operator: &str, right: &str, others: &[(usize, String)]) -> String {
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
        self.function(&item.sig, &item.block, |weaver| visit::visit_item_fn(weaver, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.sig, &item.block, |weaver| visit::visit_impl_item_fn(weaver, item));
    }

    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}

    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}

    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_binary(&mut self, both: &'a syn::ExprBinary) {
        if !has_let(&both.left) && !has_let(&both.right) {
            let others = self.take(&both.op, "BinaryOperator");
            if !others.is_empty() {
                let ((start, end), (from, to)) = (piece(both), piece(&both.op));
                let operator = self.source[from..to].to_string();
                let (left, right) = (piece(&both.left), piece(&both.right));
                self.put(start, Edit::Binary { end, left, operator, right, others });
            }
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        if let Some((number, _)) = self.take(&unary.op, "UnaryOperator").pop() {
            let ((start, end), (from, to)) = (piece(unary), piece(&unary.op));
            let operator = self.source[from..to].to_string();
            self.put(start, Edit::Unary { end, operand: piece(&*unary.expr), operator, number });
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((number, _)) = self.take(arm, "MatchArm").pop() {
            self.put(piece(&arm.pat).1, Edit::Insert(format!(" if !crate::mutant::on({number})")));
        }
        if let Some((_, guard)) = arm.guard.as_ref().filter(|(_, guard)| !has_let(guard)) {
            let values = self.take(&**guard, "MatchArmGuard");
            if !values.is_empty() {
                let (start, end) = piece(&**guard);
                self.put(start, Edit::Guard { end, values });
            }
        }
        visit::visit_arm(self, arm);
    }
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [list, tree, part, left_out @ ..] = arguments.as_slice() else {
        return Err("usage: weave LIST TREE K/N [NUMBER ...]".into());
    };
    let bad_part = || format!("part '{part}': expected K/N with K below N");
    let (k, n) = part.split_once('/').ok_or_else(bad_part)?;
    let (k, n): (usize, usize) = (k.parse().map_err(|_| bad_part())?, n.parse().map_err(|_| bad_part())?);
    if k >= n {
        return Err(bad_part());
    }
    let left_out: HashSet<&str> = left_out.iter().map(String::as_str).collect();
    let text = std::fs::read_to_string(list).map_err(|error| format!("{list}: {error}"))?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("{list}: {error}"))?;
    let mut files: BTreeMap<String, HashMap<Place, Vec<Change>>> = BTreeMap::new();
    for (at, entry) in json.as_array().into_iter().flatten().enumerate() {
        let number = at + 1;
        if at % n != k || left_out.contains(number.to_string().as_str()) {
            continue;
        }
        let word = |key: &str| entry[key].as_str().unwrap_or_default().to_string();
        let start = &entry["span"]["start"];
        let place = (start["line"].as_u64().unwrap_or(0), start["column"].as_u64().unwrap_or(0));
        let change =
            Change { number, genre: word("genre"), replacement: word("replacement"), name: word("name") };
        files.entry(word("file")).or_default().entry(place).or_default().push(change);
    }
    for (file, changes) in &files {
        let path = format!("{tree}/{file}");
        let source = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let parsed = syn::parse_file(&source).map_err(|error| format!("{path}: {error}"))?;
        let mut weaver = Weaver {
            source: &source,
            changes,
            edits: BTreeMap::new(),
            woven: HashSet::new(),
            in_const: false,
        };
        weaver.visit_file(&parsed);
        let woven = weaver.render((0, source.len()), 0);
        std::fs::write(&path, woven).map_err(|error| format!("{path}: {error}"))?;
        for change in changes.values().flatten() {
            match weaver.woven.contains(&change.number) {
                true => println!("{}\t{}", change.number, change.name),
                false => println!("-\t{}", change.name),
            }
        }
    }
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
