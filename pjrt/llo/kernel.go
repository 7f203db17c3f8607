package llo

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// KernelKey identifies a kernel by the body of its custom call, which XLA hands on as it is.
func KernelKey(body string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(body)))[:16]
}

// kernel is the name that the module that was compiled had for the kernel of an op; empty where it is not known.
func (a *analysis) kernel(op string) string {
	if len(a.Kernels) == 0 {
		return ""
	}
	h, err := a.readHLO()
	if err != nil {
		return ""
	}
	var config struct {
		Call struct{ Body string } `json:"custom_call_config"`
	}
	if json.Unmarshal([]byte(h.Attribute(op, "backend_config")), &config) != nil {
		return ""
	}
	return a.Kernels[KernelKey(config.Call.Body)]
}
