//! Tests platform files with arbitrary content: each is read, or refused with one line that names
//! the place.

use crate::fuzz;
use mmcq_lab::platform::Platform;

fn judged(result: Result<Platform, impl std::fmt::Display>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
            false
        }
    }
}

#[test]
fn fuzz_platforms() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("platforms");
    let mut good: Vec<Vec<u8>> = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            good.push(std::fs::read(path).unwrap());
        }
    }
    let file = std::env::temp_dir().join(format!("mmcq-fuzz-{}.toml", std::process::id()));
    let name = file.to_str().unwrap().to_owned();
    let known: Vec<&str> = Platform::names().collect();
    let mut read = 0;
    fuzz::fuzz("fuzz_platforms", 1_000, |u| {
        let mut text = u.choose(&good)?.clone();
        for _ in 0..u.int_in_range(0..=3)? {
            let at = u.choose_index(text.len().max(1))?;
            match u.int_in_range(0..=3)? {
                0 if at < text.len() => text[at] = u.int_in_range(0x20..=0x7e)?,
                1 if at < text.len() => drop(text.remove(at)),
                2 => text.truncate(at.max(1)),
                _ => text.splice(at..at, u.arbitrary::<[u8; 3]>()?).for_each(drop),
            }
        }
        std::fs::write(&file, &text).unwrap();
        read += u32::from(judged(Platform::load(&name)));
        // Changes of single values, as on the command line.
        let keys = [
            "cost.irq_ns",
            "cost.wake_us",
            "cpu.cores",
            "card",
            "controller",
            "own.cycle_ns",
            "driver.x",
            "x",
            "",
        ];
        let values = ["=1", "=-1", "=1e300", "=nan", "=\"x\"", "=[1]", "={}", "=", ""];
        let any: String = u.arbitrary()?;
        let change = format!("{}{}{any}", u.choose(&keys)?, u.choose(&values)?);
        read += u32::from(judged(Platform::load_with(u.choose(&known)?, &[change])));
        Ok(())
    });
    std::fs::remove_file(&file).unwrap();
    assert!(read > 0, "no input was a platform");
}
