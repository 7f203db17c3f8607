package measure

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/gdngen/gdngen/pjrt/llo"
)

// The custom call of a kernel, in the text of a module: its configuration is JSON in a string, followed by its name:
//
//	stablehlo.custom_call @tpu_custom_call(%0, %1) {backend_config = "{\22custom_call_config\22: {\22body\22: ...}}", kernel_name = "walk_rows", ...}
var (
	kernelCall   = regexp.MustCompile(`custom_call @tpu_custom_call\(.*`)
	kernelConfig = regexp.MustCompile(`backend_config = "((?:[^"\\]|\\.)*)"`)
	kernelName   = regexp.MustCompile(`kernel_name = "([^"]*)"`)
)

// kernelNames returns the names of a module's kernels, keyed as in llo.Options. XLA names a kernel's op after the JAX
// function around it; readers know it by the kernel's name.
func kernelNames(text string) map[string]string {
	var names map[string]string
	for _, call := range kernelCall.FindAllString(text, -1) {
		config, name := kernelConfig.FindStringSubmatch(call), kernelName.FindStringSubmatch(call)
		if config == nil || name == nil {
			continue
		}
		var c struct {
			Call struct{ Body string } `json:"custom_call_config"`
		}
		if json.Unmarshal([]byte(unescaped(config[1])), &c) != nil || c.Call.Body == "" {
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		names[llo.KernelKey(c.Call.Body)] = name[1]
	}
	return names
}

// unescaped removes the escapes of MLIR and of JSON from a string: \22 and \" are quotes, \5C and \\ backslashes.
func unescaped(text string) string {
	return strings.NewReplacer(`\22`, `"`, `\5C`, `\`, `\"`, `"`, `\\`, `\`, `\0A`, "\n").Replace(text)
}
