// Package suggest finds the name that a user meant, and what lies in place of a file.
package suggest

import (
	"bytes"
	"fmt"
	"strings"
)

// Name returns ` (did you mean "x"?)` for the known name nearest to a mistyped one, or "" if none is near.
func Name(got string, known []string) string {
	best, name := (len(got)+1)/2+1, ""
	for _, k := range known {
		if d := editDistance(strings.ToLower(got), strings.ToLower(k)); d < best && d < len(k) {
			best, name = d, k
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", name)
}

// editDistance counts the insertions, deletions and substitutions between two words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Stead returns what data is where no download put the file itself: a pointer of Git LFS or a page in HTML, with advice; "" for other data.
func Stead(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("version https://git-lfs")):
		return "a pointer of Git LFS in place of the file: fetch it by git lfs pull"
	case bytes.HasPrefix(bytes.TrimSpace(data[:min(len(data), 64)]), []byte("<")):
		return "a page in HTML or XML, such as that of a refused download, in place of the file: download it again"
	}
	return ""
}
