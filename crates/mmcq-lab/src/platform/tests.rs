use super::*;

#[test]
fn all_that_come_with_the_program_can_be_read() {
    for name in Platform::names() {
        let platform = Platform::load(name).unwrap();
        assert!(platform.costs.ns("irq") > 0, "{name}");
    }
    let busy = Platform::load("hsq-sprd-busy").unwrap();
    assert_eq!((busy.costs.ns("wake"), busy.costs.ns("irq")), (60_000, 2_500));
    assert_eq!(Platform::load("hsq-defer").unwrap().defer_completion, Defer::Always);
}

fn broken(line: &str, instead: &str) -> String {
    let original = include_str!("../../platforms/hsq-sprd.toml");
    let text = original.replace(line, instead);
    assert_ne!(text, original, "{line}");
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let message = Platform::load(file.path().to_str().unwrap()).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn mistakes_are_named_with_what_was_expected() {
    assert!(broken("\nwake_us = ", "\nwake = ").contains("cost.wake: no unit; expected wake_ns"));
    assert!(broken("hop_us", "hopp_us").contains("nearest known name is hop"));
    assert!(broken("cores = 8", "cores = 0").contains("cpu.cores: 0; expected 1 to 64"));
    assert!(broken("done_us = { value = 0.5, ", "done_us = { ").contains("missing field `value`"));
    assert!(broken("fixed = true", "fixt = true").contains("fixt"));
    let kind = broken("fixed = true", "kind = \"sdhc\"");
    assert!(
        kind.contains("controller.kind: \"sdhc\"; expected \"sdhci\", \"rtsx\", \"mshc\", \"stm32-sdmmc\""),
        "{kind}"
    );
    assert!(broken("\"hs200\"", "\"hs300\"").contains("hs300"));
    assert!(broken("card = ", "card = = ").contains("line 2"));
    assert!(Platform::load("hsq-spard").unwrap_err().to_string().contains("hsq-sprd"));
}

#[test]
fn who_moves_the_engine_is_a_value_of_the_board() {
    let with = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|&c| c.to_owned()).collect();
        Platform::load_with("hsq-sprd", &changes).map(|p| p.stack.advance).map_err(|e| e.to_string())
    };
    assert_eq!(with(&[]), Ok(Advance::Irq));
    assert_eq!(with(&["stack.advance=thread"]), Ok(Advance::Thread));
    assert_eq!(with(&["stack.advance=\"spin\""]), Ok(Advance::Spin));
    assert_eq!(
        with(&["stack.advance=fast"]).unwrap_err(),
        "platform hsq-sprd: stack.advance: \"fast\"; expected \"irq\", \"tasklet\", \"thread\" or \"spin\""
    );
    assert!(with(&["stack.advance=3"]).unwrap_err().contains("stack.advance: 3; expected"));
    assert!(with(&["stack.advanc=irq"]).unwrap_err().contains("nearest known name is advance"));
    assert!(with(&["stack=irq"]).unwrap_err().contains("expected a table"));
}

#[test]
fn a_board_that_says_no_cost_of_the_tasklet_can_do_without_it_but_not_use_it() {
    let original = include_str!("../../platforms/hsq-sprd.toml");
    let without =
        |name: &str| original.lines().filter(|l| !l.starts_with(name)).collect::<Vec<_>>().join("\n");
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), without("tasklet_us")).unwrap();
    let name = file.path().to_str().unwrap();
    let with = |changes: &[&str]| {
        Platform::load_with(name, &changes.iter().map(|&c| c.to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(with(&["stack.advance=thread"]).unwrap().stack.advance, Advance::Thread);
    let error = with(&["stack.advance=tasklet"]).unwrap_err().to_string();
    assert!(error.contains("cost.tasklet: missing; expected a quantity"), "{error}");
    let given = with(&["stack.advance=tasklet", "cost.tasklet_us=5"]).unwrap();
    assert_eq!(given.costs.ns("tasklet"), 5000);
    assert!(with(&["cost.tasklets_us=5"]).is_err());
}

#[test]
fn a_platform_cannot_stand_on_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("loop.toml");
    std::fs::write(&path, "extends = \"loop.toml\"").unwrap();
    assert!(Platform::load(path.to_str().unwrap()).unwrap_err().to_string().contains("more than 8"));
}
