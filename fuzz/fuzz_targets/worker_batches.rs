//! See [`rowstream_fuzz::worker_batches()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::worker_batches);
