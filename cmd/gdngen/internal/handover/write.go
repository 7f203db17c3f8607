package handover

import (
	"fmt"
	"html/template"
	"io"
	"regexp"
)

// Formats are the formats of a page.
var Formats = []string{"md", "html"}

// Write writes the page in one of Formats; another format is an error.
func (p *Page) Write(w io.Writer, format string) error {
	switch format {
	case "md":
		return p.markdown(w)
	case "html":
		return page.Execute(w, p)
	}
	return fmt.Errorf("--format %s: want one of %v", format, Formats)
}

func (p *Page) markdown(w io.Writer) error {
	_, err := fmt.Fprintf(w, "# %s\n", p.Title)
	run := ""
	for _, x := range p.Parts {
		if x.Run != run && err == nil {
			_, err = fmt.Fprintf(w, "\n## %s\n", x.Run)
		}
		run = x.Run
		if err == nil {
			_, err = fmt.Fprintf(w, "\n### %s\n", x.Heading)
		}
		for _, line := range x.Lines {
			if err == nil {
				_, err = fmt.Fprintf(w, "- %s\n", line)
			}
		}
	}
	return err
}

var quoted = regexp.MustCompile("`([^`]*)`")

// page is self-contained: it loads nothing from elsewhere.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"mark": func(text string) template.HTML {
	return template.HTML(quoted.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>"))
}}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/><title>{{.Title}}</title>
<style>:root{color-scheme:light dark;--panel:#eee}@media(prefers-color-scheme:dark){:root{--panel:#26303a}body{background:#0d1117;color:#e6edf3}}body{font:15px/1.5 sans-serif;overflow-wrap:anywhere;max-width:70em;margin:2em auto;padding:0 1em}code{background:var(--panel);padding:0 .2em;overflow-wrap:anywhere}</style></head>
<body><h1>{{.Title}}</h1>
{{range .Parts}}<h2>{{.Run}}: {{.Heading}}</h2>
<ul>{{range .Lines}}<li>{{mark .}}</li>
{{end}}</ul>
{{end}}</body></html>
`))
