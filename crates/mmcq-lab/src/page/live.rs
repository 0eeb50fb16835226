//! Playground inside a report: a form in which the reader changes the report's board, card and
//! load, and runs them in the browser.
//!
//! The laboratory for browsers is built separately (`tools/playground.sh`). It is read from the
//! folder of that build, and the page contains it as text.

use crate::board;
use crate::platform::Platform;
use crate::scene::{Loaded, Scene};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Options of fio that are fields of the form: fio's name, the form's name, and fio's default.
const FIELDS: [(&str, &str, &str); 5] = [
    ("rw", "rw", "read"),
    ("bs", "bs", "4k"),
    ("iodepth", "depth", "1"),
    ("numjobs", "jobs", "1"),
    ("size", "size", "64m"),
];
/// Options of fio that the form sets itself or does not use.
const LEFT_OUT: [&str; 7] =
    ["name", "filename", "runtime", "time_based", "loops", "number_ios", "output-format"];

/// Mark in the playground's file, where the form and its tables begin.
const BEGINS: &str = "<!-- play -->";
/// Mark in the playground's file, where the form and its tables end.
const ENDS: &str = "<!-- /play -->";

/// Playground of a page: the texts and programs that the page contains.
#[derive(Clone, Debug)]
pub struct Live {
    form: String,
    style: String,
    script: String,
    worker: String,
    /// The laboratory's WebAssembly module, compressed by gzip, as base64.
    module: String,
    start: Option<Value>,
    jobs: usize,
}

impl Live {
    /// Reads the playground's texts and WebAssembly module from the folder that
    /// `tools/playground.sh` fills.
    ///
    /// # Errors
    /// A file is missing, or belongs to another version of the program; the error is one line.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let read = |name: &str| std::fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
        let text = |name: &str| {
            let bytes = read(name)?;
            String::from_utf8(bytes).map_err(|_| format!("{name}: no text"))
        };
        let own = env!("CARGO_PKG_VERSION");
        let version = text("version")?;
        if version.trim() != own {
            return Err(format!("of version {}; this is {own}", version.trim()));
        }
        let index = text("index.html")?;
        let form = index.split_once(BEGINS).and_then(|(_, rest)| rest.split_once(ENDS));
        let (form, _) = form.ok_or_else(|| format!("index.html: expected {BEGINS} and {ENDS}"))?;
        let lab = plain(&text("lab.js")?);
        let live = Live {
            form: form.trim().to_owned(),
            style: text("style.css")?,
            script: format!("{lab}{}", plain(&text("page.js")?)),
            worker: format!("{lab}{}", plain(&text("worker.js")?)),
            module: BASE64.encode(read("mmcq_playground.wasm.gz")?),
            start: None,
            jobs: 0,
        };
        let ends = [&live.script, &live.worker, &live.style].into_iter().any(|part| part.contains("</"));
        if ends {
            Err("a script or style has \"</\", which would end its element".to_owned())
        } else {
            Ok(live)
        }
    }

    /// Sets the form of the playground to a load on a board.
    ///
    /// # Errors
    /// Board or card is a file, but the page knows only built-in ones, by name.
    pub fn set(&mut self, scene: &Scene, loaded: &Loaded) -> Result<(), String> {
        if !Platform::names().any(|name| name == scene.platform) {
            return Err(format!("board {} is a file; the page knows boards by name alone", scene.platform));
        }
        if let Some(card) = scene.card.as_ref().filter(|card| !board::card_names().any(|name| name == **card))
        {
            return Err(format!("card {card} is a file; the page knows cards by name alone"));
        }
        let job = loaded.file.jobs.first().ok_or("no job")?;
        let all = loaded.file.global_options.iter().chain(&job.given);
        let mut fields = Map::new();
        fields.insert("platform".to_owned(), scene.platform.clone().into());
        fields.insert("card".to_owned(), scene.card.clone().unwrap_or_default().into());
        for (_, name, without) in FIELDS {
            fields.insert(name.to_owned(), without.into());
        }
        let mut more: Vec<String> = Vec::new();
        for (key, value) in all {
            if let Some((_, name, _)) = FIELDS.iter().find(|(fio, ..)| fio == key) {
                fields.insert((*name).to_owned(), value.clone().into());
            } else if !LEFT_OUT.contains(&key.as_str()) {
                more.retain(|other| other.split('=').next() != Some(&format!("--{key}")));
                more.push(format!("--{key}={value}"));
            }
        }
        let changes: Vec<&String> =
            scene.set.iter().filter(|change| !change.starts_with(crate::platform::JOB)).collect();
        self.jobs = loaded.file.jobs.len();
        self.start = Some(json!({ "fields": fields, "more": more, "set": changes }));
        Ok(())
    }

    /// Returns the page's content security policy. It allows this script, the laboratory's module,
    /// and a worker made from text.
    pub(super) fn policy(&self) -> String {
        let hash = BASE64.encode(Sha256::digest(&self.script));
        format!("; script-src 'sha256-{hash}' 'wasm-unsafe-eval'; worker-src blob:")
    }

    /// Returns the style sheet of the form.
    pub(super) fn style(&self) -> &str {
        &self.style
    }

    /// Returns the section of the page that contains the form, in which the reader changes the run.
    pub(super) fn section(&self) -> Markup {
        html! {
            h2 { "Change it" }
            p {
                "The same board, card and load again, in this page, for 0.2 s of simulated time. Move a knob, and see "
                "what it costs."
                @if self.jobs > 1 { " The report has " (self.jobs) " jobs; this is the first." }
            }
            div.play { (PreEscaped(&self.form)) }
        }
    }

    /// Returns the invisible parts: the laboratory, the worker, the initial values of the form, and
    /// the script.
    pub(super) fn scripts(&self) -> Markup {
        let start = self.start.as_ref().map_or_else(String::new, Value::to_string).replace('<', "\\u003c");
        html! {
            script type="text/plain" id="play-module" { (PreEscaped(&self.module)) }
            script type="text/plain" id="play-worker" { (PreEscaped(&self.worker)) }
            script type="application/json" id="play-start" { (PreEscaped(start)) }
            script type="module" { (PreEscaped(&self.script)) }
        }
    }
}

/// Returns a script module without its imports and exports, since the page has all modules in one
/// script.
fn plain(script: &str) -> String {
    let lines = script.lines().filter(|line| !line.starts_with("import "));
    lines.map(|line| format!("{}\n", line.strip_prefix("export ").unwrap_or(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("version", concat!(env!("CARGO_PKG_VERSION"), "\n"));
        put("index.html", "<h1>a</h1><!-- play --><form></form><!-- /play -->");
        put("style.css", "form{}");
        put("lab.js", "export function lab() {}\n");
        put("page.js", "import { lab } from './lab.js';\nlab();\n");
        put("worker.js", "import { lab } from './lab.js';\nlab(1);\n");
        put("mmcq_playground.wasm.gz", "abc");
        folder
    }

    #[test]
    fn the_parts_are_in_the_page_and_its_policy_allows_this_script_alone() {
        let folder = folder();
        let live = Live::read(folder.path()).unwrap();
        assert_eq!(live.script, "function lab() {}\nlab();\n");
        let scripts = live.scripts().into_string();
        assert!(scripts.contains("id=\"play-module\">YWJj</script>"), "{scripts}");
        // Made by: printf 'function lab() {}\nlab();\n' | openssl dgst -sha256 -binary | base64
        assert!(
            live.policy().starts_with("; script-src 'sha256-dmvBVhT8Qv9gtY3nLlg7eawNa6NgTShc89vhgpwioSk=' "),
            "{}",
            live.policy()
        );
        assert!(live.section().into_string().contains("<div class=\"play\"><form></form></div>"));
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("page.js", "'</script>'");
        assert!(Live::read(folder.path()).unwrap_err().contains("would end its element"));
        put("version", "0.0.1");
        let said = Live::read(folder.path()).unwrap_err();
        assert!(said.starts_with("of version 0.0.1; this is "), "{said}");
        assert!(Live::read(Path::new("nowhere")).unwrap_err().starts_with("version: "));
    }

    #[test]
    fn the_form_begins_as_the_report() {
        let words = ["--name=a", "--rw=randrw", "--bs=8k", "--rwmixread=70", "--iodepth=4", "--runtime=2"];
        let file = fio::parse_command_line(&words.map(str::to_owned), &fio::System).unwrap();
        let mut scene =
            Scene { set: vec!["cost.wake_us=30".to_owned(), "job.bs=16k".to_owned()], ..Scene::default() };
        let loaded = scene.load(&file, &scene.set).unwrap();
        let folder = folder();
        let mut live = Live::read(folder.path()).unwrap();
        live.set(&scene, &loaded).unwrap();
        let expected = json!({
            "fields": {"platform": "generic", "card": "", "rw": "randrw", "bs": "16k", "depth": "4", "jobs": "1", "size": "64m"},
            "more": ["--rwmixread=70"], "set": ["cost.wake_us=30"],
        });
        assert_eq!(live.start, Some(expected));
        scene.platform = "board.toml".to_owned();
        assert!(live.set(&scene, &loaded).unwrap_err().starts_with("board board.toml is a file"));
    }
}
