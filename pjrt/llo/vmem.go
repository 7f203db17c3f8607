package llo

import (
	"encoding/json"
	"fmt"
	"strings"
)

// readVMEM fills the vector memory of each op from the compiler's report, if there is one.
func (a *analysis) readVMEM() error {
	if a.files.vmem == "" {
		return nil
	}
	var err error
	a.vmem, err = read(a.files.dir, a.files.vmem, parseVMEM)
	return err
}

// parseVMEM reads the bytes of vector memory by op from a vmem_report page, whose data is one JSON object in a script.
func parseVMEM(page string) (map[string]int64, error) {
	_, data, ok := strings.Cut(page, "const DATA =")
	if !ok {
		return nil, &syntaxError{1, "no data: not a vmem_report page, or cut short"}
	}
	var v struct {
		Ops map[string]struct {
			Size int64 `json:"total_size"`
		} `json:"hlo_breakdowns"`
	}
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&v); err != nil {
		return nil, &syntaxError{1, fmt.Sprintf("data of the vmem_report page: %v", err)}
	}
	sizes := map[string]int64{}
	for name, op := range v.Ops {
		sizes[strings.TrimPrefix(name, "%")] = op.Size
	}
	return sizes, nil
}
