package measure

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/gdngen/gdngen/pjrt/llo"
)

// A custom call of a kernel, in the text of a module: its configuration is JSON in a string, and its name is beside it, as in
//
//	stablehlo.custom_call @tpu_custom_call(%0, %1) {backend_config = "{\22custom_call_config\22: {\22body\22: ...}}", kernel_name = "walk_rows", ...}
var (
	kernelCall   = regexp.MustCompile(`custom_call @tpu_custom_call\(.*`)
	kernelConfig = regexp.MustCompile(`backend_config = "((?:[^"\\]|\\.)*)"`)
	kernelName   = regexp.MustCompile(`kernel_name = "([^"]*)"`)
)

// kernelNames are the names of the kernels of a module, keyed as llo.Options wants them. XLA calls the op of a kernel after the function of JAX
// around it; people know it by this name.
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

// unescaped takes the escapes of MLIR and of JSON from a string: \22 and \" are quotes, \5C and \\ backslashes.
func unescaped(text string) string {
	return strings.NewReplacer(`\22`, `"`, `\5C`, `\`, `\"`, `"`, `\\`, `\`, `\0A`, "\n").Replace(text)
}
