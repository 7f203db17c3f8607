// Package contest packs solutions for FlashInfer-Bench, and has servers of it evaluate them.
//
// A packed solution is one JSON file: a config.toml and the files below solution/LANGUAGE, as the contest's starter kit lays them out. Packing
// the same files gives the same bytes.
package contest
