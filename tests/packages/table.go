package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// lowerText lowers the functions of a package.
//
//go:embed lower.py
var lowerText string

// row is the dated result of a draw.
type row struct {
	draw
	date, verdict, what string
}

func (r row) String() string {
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s", r.seed, r.date, r.verdict, r.spec, r.auto, r.target, r.what)
}

const header = "seed\tdate\tverdict\tspec\tvariant\ttarget\twhat\n"

// readRows reads a table; it may be missing.
func readRows(file string) (map[uint64]row, error) {
	rows := map[uint64]row{}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(strings.TrimPrefix(string(text), header)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 7 {
			return nil, fmt.Errorf("%s: a row has %d fields: %s", file, len(f), line)
		}
		seed, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		rows[seed] = row{draw{seed, f[3], f[4], f[5]}, f[1], f[2], f[6]}
	}
	return rows, nil
}

func writeRows(file string, rows map[uint64]row) error {
	var b strings.Builder
	b.WriteString(header)
	for _, seed := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[seed].String() + "\n")
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
