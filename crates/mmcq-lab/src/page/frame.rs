//! Parts that all pages have: head, style, tables, and the embedded data.

use super::live::Live;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Content security policy of a page: the page loads nothing and runs no script; inline styles and
/// embedded images are allowed. A page with a playground appends `Live::policy`, which allows the
/// playground's script.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
/// Start of the element with the page's data, for which `mmcq compare` searches.
pub const DATA: &str = "<script type=\"application/json\" id=\"mmcq-report\">";
/// End of the element with the page's data.
pub const DATA_END: &str = "</script>";

/// Length in characters above which a cell of a table, and so its column, counts as text and not as
/// a figure.
const FIGURE: usize = 24;

/// Returns the whole HTML page. `data`: the page's figures as JSON. `live`: the form in which a
/// reader changes values and runs the simulation again (the playground); its section is already in
/// `body`.
pub fn page(title: &str, top: &Markup, body: &Markup, data: &str, live: Option<&Live>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content={ (POLICY) (live.map(Live::policy).unwrap_or_default()) };
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                @if let Some(live) = live { style { (PreEscaped(live.style())) } }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header { h1 { (title) } (top) }
                main { (body) }
                footer {
                    p {
                        "Written by mmcq " (env!("CARGO_PKG_VERSION")) ", a laboratory for stacks that drive SD "
                        "and eMMC cards. All figures are of a simulation: the same command and seed give the "
                        "same page. The page loads nothing. Its figures are inside as JSON: "
                        code { "mmcq compare A.html B.html" } " reads them, and so does any program that looks "
                        "for the element " code { "mmcq-report" } "."
                    }
                }
                (PreEscaped(inside(data)))
                @if let Some(live) = live { (live.scripts()) }
            }
        }
    };
    page.into_string()
}

/// Returns the data as an element that does not run as a script. Each `<` in the data is escaped,
/// since it could end the element.
fn inside(data: &str) -> String {
    format!("{DATA}\n{}{DATA_END}\n", data.replace('<', "\\u003c"))
}

/// Returns a picture that is as wide as the page's text, with the caption `said`.
pub fn figure(svg: &str, said: &str) -> Markup {
    html! { figure { (PreEscaped(svg)) figcaption { (said) } } }
}

/// Returns a picture with small letters, and the caption `said`. The reader can scroll the picture
/// with the keyboard or on a telephone.
pub fn figure_wide(svg: &str, said: &str) -> Markup {
    html! {
        figure.drawn {
            div.scroll tabindex="0" role="region" aria-label=(said) { (PreEscaped(svg)) }
            figcaption { (said) }
        }
    }
}

/// Returns a legend of colours and their names.
pub fn legend(names: &[(&str, String)]) -> Markup {
    html! {
        ul.legend {
            @for (name, colour) in names {
                li { span.key style=(format!("background:{colour}")) {} (name) }
            }
        }
    }
}

/// Returns a table whose first column names its rows. The row with index `mine` is highlighted. The
/// table can be scrolled with the keyboard.
pub fn table(caption: &str, heads: &[&str], rows: &[Vec<String>], mine: Option<usize>) -> Markup {
    let text: Vec<bool> = (0..heads.len())
        .map(|column| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.len() > FIGURE)))
        .collect();
    // A column of words is aligned left, a column of figures right.
    let is_word = |cell: &String| cell.starts_with(char::is_alphabetic);
    let words: Vec<bool> = (0..heads.len())
        .map(|column| {
            let cells = || rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
            cells().next().is_some() && cells().all(is_word)
        })
        .collect();
    let class = |column: usize| match (text.get(column), words.get(column)) {
        (Some(true), _) => Some("text"),
        (_, Some(true)) => Some("words"),
        _ => None,
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (column, head) in heads.iter().enumerate() { th scope="col" class=[class(column)] { (head) } }
                    }
                }
                tbody {
                    @for (at, row) in rows.iter().enumerate() {
                        tr class=[(mine == Some(at)).then_some("mine")] {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } }
                                @else { td class=[class(column)] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the text with its first letter as a capital.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a list of facts, each with its name and its value.
pub fn facts(facts: &[(&str, String)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_their_element() {
        let nothing = html! {};
        let page = page("a < b", &nothing, &nothing, "{\"name\": \"</script><b>\"}\n", None);
        assert_eq!(page.matches("</script>").count(), 1);
        let (_, rest) = page.split_once(DATA).unwrap();
        let data: serde_json::Value = serde_json::from_str(rest.split_once(DATA_END).unwrap().0).unwrap();
        assert_eq!(data["name"], "</script><b>");
        assert!(page.contains("<h1>a &lt; b</h1>") && page.contains(POLICY.split(';').next().unwrap()));
    }
}
