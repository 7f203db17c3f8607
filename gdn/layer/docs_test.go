package layer_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code of docs/layer.md is in the examples, which compile and run.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/layer.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	models, err := os.ReadFile("../lm/example_test.go")
	require.NoError(t, err)
	source = append(source, models...)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(blocks), 4)
	for _, b := range blocks {
		var lines []string
		for line := range strings.Lines(b[1]) {
			if !regexp.MustCompile("^(import|// squares)").MatchString(b[1]) && line != "\n" {
				line = "\t" + line
			}
			lines = append(lines, line)
		}
		require.Contains(t, string(source), strings.Join(lines, ""), "example_test.go has no such code")
	}
}
