//go:build cgo && ((linux && amd64) || darwin) && !noxla

package kernels

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/gdngen/gdngen/pjrt/table"
)

// mark is the name prefix of functions whose bodies are replaced by generated programs.
const mark = "gdngen_"

func init() { table.Complete("@"+mark, complete) }

// insertion is a program whose graph is not compiled yet.
type insertion struct {
	text string
	dump func(program string) // receives the completed graph; may be nil
}

// waiting holds programs by the names of their functions, which are unique in a process.
var waiting = insertions{programs: map[string]insertion{}}

type insertions struct {
	sync.Mutex
	count    int
	programs map[string]insertion
}

func (w *insertions) add(of string, i insertion) (name string) {
	w.Lock()
	defer w.Unlock()
	name = fmt.Sprintf("%s%s_%d", mark, of, w.count)
	w.count++
	w.programs[name] = i
	return name
}

// take removes and returns a program; only one graph has its function.
func (w *insertions) take(name string) (insertion, bool) {
	w.Lock()
	defer w.Unlock()
	i, ok := w.programs[name]
	delete(w.programs, name)
	return i, ok
}

var function = regexp.MustCompile(`(?m)^ *func\.func (?:private )?@(` + mark + `\w+)\(`)

// complete replaces the bodies of marked functions by their programs.
func complete(text string) (string, error) {
	var dump func(string)
	for _, m := range function.FindAllStringSubmatch(text, -1) {
		i, ok := waiting.take(m[1])
		if !ok {
			return "", fmt.Errorf("kernels: there is no program for function %s: a graph with generated programs is compiled once only", m[1])
		}
		var err error
		if text, err = replace(text, m[1], i.text); err != nil {
			return "", err
		}
		dump = i.dump
	}
	if dump != nil {
		dump(text)
	}
	return text, nil
}

// replace replaces a function of text by the main function of a module.
func replace(text, name, module string) (string, error) {
	const end = "\n  }"
	head := "  func.func @" + name + "("
	at := strings.Index(text, head)
	if at < 0 {
		return "", fmt.Errorf("kernels: the graph has no function %s", name)
	}
	n := strings.Index(text[at:], end)
	const main = "  func.func public @main("
	from := strings.Index(module, main)
	to := strings.LastIndex(module, end)
	if n < 0 || from < 0 || to < from {
		return "", fmt.Errorf("kernels: the text of function %s is not as expected", name)
	}
	body := "  func.func private @" + name + "(" + module[from+len(main):to] + end
	return text[:at] + body + text[at+n+len(end):], nil
}
