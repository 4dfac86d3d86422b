//! See [`rowstream_fuzz::split()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::split);
