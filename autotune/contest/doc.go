// Package contest packs solutions for FlashInfer-Bench, and sends them to its servers for evaluation.
//
// A packed solution is one JSON file: a config.toml and the files below solution/LANGUAGE, as in the contest's starter
// kit. Packing the same files gives the same bytes.
package contest
