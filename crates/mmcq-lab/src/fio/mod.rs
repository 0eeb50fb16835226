//! fio: job files, offsets, verification, statistics and reports.
