package pytext

import (
	"regexp"
	"strings"
)

// libraries are the imports that files may need, in order: modules by the name before a dot, or names from a module.
var libraries = [][]struct{ name, line string }{
	{{"dataclasses", ""}, {"functools", ""}, {"math", ""}, {"Callable", "collections.abc"}, {"Generator", "collections.abc"},
		{"Any", "typing"}, {"NamedTuple", "typing"}},
	{{"jax", "import jax"}, {"jnp", "import jax.numpy as jnp"}, {"np", "import numpy as np"}, {"lax", "from jax import lax"},
		{"pl", "from jax.experimental import pallas as pl"}, {"pltpu", "from jax.experimental.pallas import tpu as pltpu"}, {"core", "from jax.extend import core"}},
}

// Imports returns the import lines that code needs.
func Imports(code string) string {
	var groups []string
	for _, group := range libraries {
		var lines []string
		from := ""
		for _, l := range group {
			module := l.line == "" || strings.Contains(l.line, " ")
			if used := `(^|[^.\w])` + l.name; !regexp.MustCompile(used + map[bool]string{true: `\.`, false: `\b`}[module]).MatchString(code) {
				continue
			}
			switch last := len(lines) - 1; {
			case l.line == "":
				lines = append(lines, "import "+l.name)
			case module:
				lines = append(lines, l.line)
			case from == l.line:
				lines[last] += ", " + l.name
			default:
				lines = append(lines, "from "+l.line+" import "+l.name)
			}
			from = l.line
		}
		if len(lines) > 0 {
			groups = append(groups, strings.Join(lines, "\n")+"\n")
		}
	}
	return strings.Join(groups, "\n")
}

// ImportFrom returns an import of names, one a line if they do not fit one line; "" for no names.
func ImportFrom(module string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	if line := "from " + module + " import " + strings.Join(names, ", "); len(line) <= LineWidth {
		return line + "\n"
	}
	return "from " + module + " import (\n    " + strings.Join(names, ",\n    ") + ",\n)\n"
}
