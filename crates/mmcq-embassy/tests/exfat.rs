//! Tests of an exFAT volume on a simulated card, through two handles on one queue, in virtual time.

use crate::{format, machine};
use aligned::{A4, A64};
use block_device_driver::BlockDevice as _;
use exfat_slim::asynchronous::directory::MAX_NAME_LEN;
use exfat_slim::asynchronous::file::OpenOptions;
use exfat_slim::asynchronous::file_system::FileSystem;
use machine::{Rig, buffer};
use mmcq::card;
use mmcq::host::sdhci;
use mmcq_embassy::Disk;
use mmcq_sim::sdhci::SdhciConfig;

fn rig() -> Rig {
    let rig = Rig::new("sdhc-16g-hs", SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    rig.bring_up(card::Options::DEFAULT).unwrap();
    rig
}

/// Returns contents whose length is no multiple of a block or cluster.
fn contents(seed: u8) -> Vec<u8> {
    (0..100_003u32).map(|i| (i.wrapping_mul(31) >> 3) as u8 ^ seed).collect()
}

#[test]
fn files_come_back_as_they_were_written() {
    let rig = rig();
    let mut raw = Disk::<_, 16, A4>::new(&rig.stack, buffer(32)).unwrap();
    let disk = Disk::<_, 16, A4>::new(&rig.stack, buffer(4)).unwrap();
    rig.drive(async {
        assert_eq!(raw.size().await.unwrap() % 512, 0);
        format::exfat(&mut raw).await.unwrap();
        let mut fs: FileSystem<_, 512, 8> = FileSystem::new(disk);
        fs.create_directory("/logs").await.unwrap();
        for seed in 0..3u8 {
            let options = OpenOptions::new().create_new(true).write(true);
            let mut file = fs.open(&format!("/logs/run {seed}.bin"), options).await.unwrap();
            // All parts but the last are whole sectors: exfat-slim 0.7.0 panics if the rest of a
            // write begins a cluster.
            for part in contents(seed).chunks(7 * 512) {
                file.write(&mut fs, part).await.unwrap();
            }
            file.close(&mut fs).await.unwrap();
        }
        fs.remove_file("/logs/run 1.bin").await.unwrap();
        let mut disk = fs.unmount().await;
        disk.flush().await.unwrap();
    });
    // A new handle has nothing in memory, so all data must come from the card.
    let disk = Disk::<_, 16, A64>::new(&rig.stack, buffer(1)).unwrap();
    rig.drive(async {
        let mut fs: FileSystem<_, 512, 8> = FileSystem::new(disk);
        let mut listed = Vec::new();
        let mut name = [0; MAX_NAME_LEN];
        let mut folder = fs.read_dir("/logs").await.unwrap();
        while let Some(entry) = folder.next_entry(&mut fs, &mut name).await.unwrap() {
            listed.push((entry.name.to_owned(), entry.metadata.len()));
        }
        assert_eq!(listed, [("run 0.bin".to_owned(), 100_003), ("run 2.bin".to_owned(), 100_003)]);
        for seed in [0u8, 2] {
            let mut file =
                fs.open(&format!("/logs/run {seed}.bin"), OpenOptions::new().read(true)).await.unwrap();
            let (mut all, mut part) = (Vec::new(), [0; 5_000]);
            loop {
                match file.read(&mut fs, &mut part).await.unwrap() {
                    Some(0) | None => break,
                    Some(bytes) => all.extend_from_slice(&part[..bytes]),
                }
            }
            assert_eq!(all, contents(seed));
        }
    });
    rig.checked();
    assert!(rig.time.now() > 0, "virtual time");
}

#[test]
fn handles_of_several_users_share_one_queue() {
    let rig = rig();
    let mut disks: Vec<_> = (0..4).map(|_| Disk::<_, 16, A4>::new(&rig.stack, buffer(2)).unwrap()).collect();
    let mut most = 0;
    rig.drive(async {
        let mut users: Vec<_> = disks
            .iter_mut()
            .enumerate()
            .map(|(user, disk)| {
                Box::pin(async move {
                    let at = 10_000 * user as u32;
                    let mut data = [aligned::Aligned::<A4, _>([user as u8 ^ 0xa5; 512]); 5];
                    disk.write(at, &data).await.unwrap();
                    data.fill(aligned::Aligned([0; 512]));
                    disk.read(at, &mut data).await.unwrap();
                    assert!(data.iter().all(|block| **block == [user as u8 ^ 0xa5; 512]));
                })
            })
            .collect();
        std::future::poll_fn(|context| {
            users.retain_mut(|user| user.as_mut().poll(context).is_pending());
            most = most.max(rig.stack.with(|engine| engine.slots_in_use()));
            if users.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
    assert_eq!(most, 4, "all wait at the same time");
    rig.checked();
}

#[test]
fn buffers_that_travel_through_the_call_move_the_same_data() {
    let rig = rig();
    let mut copying = Disk::<_, 16, A4>::new(&rig.stack, buffer(3)).unwrap();
    let direct = copying.device().clone();
    rig.drive(async {
        let mut blocks = buffer(10);
        for (i, block) in blocks.chunks_exact_mut(512).enumerate() {
            block.fill(i as u8 + 1);
        }
        let (result, blocks) = direct.write(1000, blocks).await;
        assert_eq!((result, blocks.len_bytes()), (Ok(10), 5120));
        direct.flush().await.unwrap();
        let mut back = [aligned::Aligned::<A4, _>([0u8; 512]); 10];
        copying.read(1000, &mut back).await.unwrap();
        for (i, block) in back.iter().enumerate() {
            assert_eq!(**block, [i as u8 + 1; 512]);
        }
    });
    rig.checked();
}

#[test]
fn bad_requests_are_refused() {
    let rig = rig();
    assert!(Disk::<_, 16, A4>::new(&rig.stack, mmcq::engine::DmaBuf::EMPTY).is_err());
    let mut disk = Disk::<_, 16, A4>::new(&rig.stack, buffer(1)).unwrap();
    let mut block = [aligned::Aligned::<A4, _>([0u8; 512])];
    let error = rig.drive(disk.read(u32::MAX, &mut block)).unwrap_err();
    assert!(error.to_string().starts_with("block 4294967295 is outside the card's"), "{error}");
    rig.stack.with(|engine| engine.set_card_params(None));
    assert!(rig.drive(disk.size()).is_err());
}
