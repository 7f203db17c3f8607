package device

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/pjrt"
)

// The worker and its parent exchange JSON lines. The worker sends one reply when the plugin is open, and then one reply per order.
// Arrays are in files of a folder that the parent owns.

// order is a request to the worker; one of its fields is set.
type order struct {
	Compile *compileOrder `json:"compile,omitempty"`
	Run     *runOrder     `json:"run,omitempty"`
	Pairs   *pairsOrder   `json:"pairs,omitempty"`
	Profile *profileOrder `json:"profile,omitempty"`
	Free    int           `json:"free,omitempty"` // a program to free
}

type compileOrder struct {
	Program int    `json:"program"` // the number it gets
	Text    string `json:"text"`
}

type runOrder struct {
	Program   int     `json:"program"`
	Arguments []saved `json:"arguments"`
	Results   string  `json:"results"` // prefix of the result files
}

type pairsOrder struct {
	Programs  [2]int  `json:"programs"`
	Arguments []saved `json:"arguments"`
	Warmup    int     `json:"warmup"`
	Trials    int     `json:"trials"`
}

type profileOrder struct {
	Pieces  []pieceOrder        `json:"pieces"`
	Options pjrt.ProfileOptions `json:"options"`
	Space   string              `json:"space"` // file for the XSpace
}

type pieceOrder struct {
	Program   int     `json:"program"`
	Times     int     `json:"times"`
	Arguments []saved `json:"arguments"`
}

// reply is the worker's reply.
type reply struct {
	Fault   fault    `json:"fault,omitempty"` // empty for success
	Code    int      `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	Info    *Info    `json:"info,omitempty"`
	Results []saved  `json:"results,omitempty"`
	Pairs   [][2]int `json:"pairs,omitempty"`  // nanoseconds
	Steps   [][]int  `json:"steps,omitempty"`  // nanoseconds per piece
	Absent  string   `json:"absent,omitempty"` // why there is no profile
}

// fault is the kind of a worker's failure.
type fault string

const (
	faultOpen    fault = "open"
	faultCompile fault = "compile"
	faultRun     fault = "run"
	faultArrays  fault = "arrays"
)

// saved is an array in a file.
type saved struct {
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	File  string `json:"file"`
}

// save writes arrays to files with a path prefix.
func save(path string, arrays []*array.Array) (list []saved, err error) {
	for i, a := range arrays {
		x := saved{a.Type.String(), a.Shape, fmt.Sprintf("%s%d", path, i)}
		if err := os.WriteFile(x.File, a.Data, 0o600); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// read reads arrays back.
func read(list []saved) (arrays []*array.Array, err error) {
	for _, x := range list {
		d, err := ir.ParseDType(x.Type)
		if err != nil {
			return nil, err
		}
		a := &array.Array{Type: d, Shape: x.Shape}
		if a.Data, err = os.ReadFile(x.File); err == nil {
			err = a.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(x.File), err)
		}
		arrays = append(arrays, a)
	}
	return arrays, nil
}

// remove deletes the files of arrays.
func remove(list []saved) {
	for _, x := range list {
		os.Remove(x.File)
	}
}
