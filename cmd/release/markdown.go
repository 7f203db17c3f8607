package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/russross/blackfriday/v2"
)

// repository is the address for links to files that are not pages.
const repository = "https://github.com/gdngen/gdngen/blob/main/"

// documents are the pages in Markdown, in the order of the menu. Patterns are relative to the repository.
var documents = []string{"README.md", "docs/start.md", "docs/*.md", "docs/data/*.md", "docs/journal/README.md", "examples/README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}

// found is an entry of the search: a heading of a page with its text.
type found struct {
	URL     string `json:"u"`
	Page    string `json:"p"`
	Heading string `json:"h"`
	Text    string `json:"t"`
}

// pages writes the documents as pages, and the index that the search reads.
func (s *site) pages() error {
	var files []string
	seen := map[string]bool{}
	for _, pattern := range documents {
		list, err := filepath.Glob(pattern)
		if err != nil || len(list) == 0 {
			return fmt.Errorf("no page is %s here: the command runs in the root of the repository", pattern)
		}
		for _, f := range list {
			f = filepath.ToSlash(f)
			if !seen[f] {
				files = append(files, f)
			}
			seen[f] = true
		}
	}
	texts := map[string][]byte{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		texts[f] = data
		title, _, _ := strings.Cut(strings.TrimPrefix(string(data), "# "), "\n")
		s.docs = append(s.docs, sitePage{Path: htmlName(f), Title: title})
	}
	var index []found
	for i, f := range files {
		body, entries := rendered(f, texts[f], seen)
		for j := range entries {
			entries[j].Page = s.docs[i].Title
		}
		index = append(index, entries...)
		if err := s.page(htmlName(f), s.docs[i].Title, body); err != nil {
			return err
		}
	}
	pictures, err := filepath.Glob("docs/*.svg")
	if err != nil {
		return err
	}
	for _, f := range pictures {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := s.file(filepath.ToSlash(f), data); err != nil {
			return err
		}
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return s.file("index.js", append(append([]byte("const found = "), data...), ";\n"...))
}

// htmlName returns the page of a document.
func htmlName(file string) string { return strings.TrimSuffix(file, ".md") + ".html" }

var notInAnchor = regexp.MustCompile("[^a-z0-9 _-]")

// anchor returns the link name of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// rendered returns a document as HTML, with links between pages, and its search entries. pages are the existing documents.
func rendered(file string, text []byte, pages map[string]bool) (string, []found) {
	const extensions = blackfriday.CommonExtensions &^ blackfriday.HeadingIDs
	tree := blackfriday.New(blackfriday.WithExtensions(extensions)).Parse(text)
	var entries []found
	tree.Walk(func(n *blackfriday.Node, entering bool) blackfriday.WalkStatus {
		if !entering {
			return blackfriday.GoToNext
		}
		switch n.Type {
		case blackfriday.Heading:
			heading := plainText(n)
			n.HeadingID = anchor(heading)
			entries = append(entries, found{URL: htmlName(file) + "#" + n.HeadingID, Heading: heading})
		case blackfriday.Link:
			n.LinkData.Destination = []byte(linked(file, string(n.LinkData.Destination), pages))
		case blackfriday.Paragraph, blackfriday.TableRow, blackfriday.CodeBlock:
			if len(entries) > 0 && (n.Parent == nil || n.Parent.Type != blackfriday.BlockQuote) {
				e := &entries[len(entries)-1]
				e.Text = strings.TrimSpace(e.Text + " " + strings.Join(strings.Fields(plainText(n)), " "))
			}
		}
		return blackfriday.GoToNext
	})
	renderer := blackfriday.NewHTMLRenderer(blackfriday.HTMLRendererParameters{})
	var b strings.Builder
	tree.Walk(func(n *blackfriday.Node, entering bool) blackfriday.WalkStatus {
		if n.Type == blackfriday.Table { // wide tables scroll by themselves
			if entering {
				b.WriteString("<div class=\"wide\">")
			} else {
				defer b.WriteString("</div>")
			}
		}
		return renderer.RenderNode(&b, n, entering)
	})
	return b.String(), entries
}

// plainText returns the text of a node and its children.
func plainText(n *blackfriday.Node) string {
	var b strings.Builder
	n.Walk(func(x *blackfriday.Node, entering bool) blackfriday.WalkStatus {
		if entering {
			b.Write(x.Literal)
			if x.Type == blackfriday.TableCell {
				b.WriteByte(' ')
			}
		}
		return blackfriday.GoToNext
	})
	return b.String()
}

// linked returns the address of a document's link in the gallery.
func linked(file, to string, pages map[string]bool) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	name, at, has := strings.Cut(to, "#")
	if has {
		at = "#" + at
	}
	whole := path.Join(path.Dir(file), name)
	if pages[whole] {
		return htmlName(name) + at
	}
	return repository + whole + at
}
