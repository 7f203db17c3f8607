package lm_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"

	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/gdn/lm"
)

// A tiny model of random numbers, whose answers by transformers are stored beside it.
func Example() {
	folder := filepath.Join("testdata", "qwen3_5")
	backend, err := device.Open(context.Background(), device.Go, device.Options{}) // or device.XLA, with cgo and a plugin
	must(err)
	defer backend.Finalize()

	var m *lm.Model
	m, err = lm.Open(backend, folder, dtypes.Float32) // config.json and safetensors files
	must(err)
	defer m.Finalize()
	var s *lm.Session = m.Session()
	_, err = s.Take([][]int32{{3, 1, 4, 1}}) // a prompt of one sequence, in as many pieces as one likes
	must(err)
	logits, err := s.Take([][]int32{{5, 9}}) // []float32, of the last token: [sequences, vocabulary] in a row
	must(err)
	other := s.Fork()          // goes on from the same tokens by itself
	said, err := s.Generate(4) // [][]int32, the likeliest tokens
	must(err)
	again, err := other.Generate(4)
	must(err)
	fmt.Println(len(logits), s.Tokens(), len(said[0]), fmt.Sprint(said) == fmt.Sprint(again))
	// Output: 64 10 4 true
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
