package llo

import (
	"fmt"

	"github.com/gdngen/gdngen/pjrt/llo/hlo"
)

// twin finds the op whose schedule is that of name: libtpu compiles ops that are the same computation once and dumps one of them.
func (a *analysis) twin(name string) (string, error) {
	h, err := a.readHLO()
	if err != nil {
		return "", err
	}
	opcode := h.Opcode(name)
	if opcode == "" {
		return "", fmt.Errorf("%s does not name it", a.files.hlo)
	}
	alike, err := h.Twins(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", a.files.hlo, err)
	}
	found, hash := "", ""
	for _, other := range alike {
		if !a.files.ops[other].complete() {
			continue
		}
		bundles, err := read(a.files.dir, a.files.ops[other].bundles, parseBundles)
		if err != nil {
			return "", err
		}
		switch otherHash := canonicalHash(bundles); {
		case found == "":
			found, hash = other, otherHash
		case hash != otherHash:
			return "", fmt.Errorf("%s and %s are both like it in %s, but their schedules differ", found, other, a.files.hlo)
		}
	}
	if found == "" {
		return "", fmt.Errorf("no %s of the same type, operands and attributes in %s has both", opcode, a.files.hlo)
	}
	return found, nil
}

// readHLO reads the optimised module, once.
func (a *analysis) readHLO() (*hlo.Module, error) {
	if a.hlo != nil {
		return a.hlo, nil
	}
	if a.files.hlo == "" {
		return nil, fmt.Errorf("no *-%s-hlo.txt to find another op of the same computation in", topLevel)
	}
	var err error
	a.hlo, err = read(a.files.dir, a.files.hlo, hlo.Parse)
	return a.hlo, err
}
