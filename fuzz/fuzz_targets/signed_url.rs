//! See [`rowstream_fuzz::signed_url()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::signed_url);
