package array

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gdngen/gdngen/ir"
)

// File is the content of a safetensors file. Names is the order of the tensors in the header; nil means alphabetical
// order when writing.
type File struct {
	Tensors  map[string]*Array
	Names    []string
	Metadata map[string]string
	// Opaque maps tensors of unsupported element types, such as F8_E4M3, to type and shape. Quantised checkpoints have
	// some of them.
	Opaque map[string]string
}

// Tensor returns a tensor by name. A missing tensor, or one of an unsupported element type, is an error.
func (f *File) Tensor(name string) (*Array, error) {
	if a := f.Tensors[name]; a != nil {
		return a, nil
	}
	if what, ok := f.Opaque[name]; ok {
		return nil, fmt.Errorf("tensor %q is %s, an element type that is not read (known: %s)", name, what, knownTypes())
	}
	return nil, fmt.Errorf("tensor %q is missing", name)
}

// transparent returns an error with the first opaque tensor, if any.
func (f *File) transparent() error {
	for _, name := range slices.Sorted(maps.Keys(f.Opaque)) {
		_, err := f.Tensor(name)
		return err
	}
	return nil
}

// The header is JSON; its length, little-endian, is in the first 8 bytes.
const (
	prefixBytes    = 8
	maxHeaderBytes = 100_000_000
	metadataKey    = "__metadata__"
)

// The element types in the format's names.
var safetensorsTypes = []struct {
	name  string
	dtype ir.DType
}{
	{"F64", ir.F64}, {"F32", ir.F32}, {"F16", ir.F16}, {"BF16", ir.BF16},
	{"I64", ir.I64}, {"I32", ir.I32}, {"U32", ir.U32}, {"U16", ir.U16}, {"BOOL", ir.Bool},
}

// ReadSafetensors reads a regular file. It fails if a tensor has an unsupported element type.
func ReadSafetensors(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("safetensors: %s is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := ParseSafetensors(data)
	if err == nil {
		err = f.transparent()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// ParseSafetensors reads a file's bytes; the arrays share them. The tensors must cover the data part
// without gap or overlap, as the format demands. Tensors of unsupported types become Opaque.
func ParseSafetensors(data []byte) (*File, error) {
	f, err := parseSafetensors(data)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return f, nil
}

func parseSafetensors(data []byte) (*File, error) {
	if len(data) < prefixBytes {
		return nil, fmt.Errorf("truncated: %d bytes, fewer than the %d of the header length%s", len(data), prefixBytes, beginning(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeaderBytes {
		return nil, fmt.Errorf("header length %d is beyond the limit of %d%s", n, maxHeaderBytes, beginning(data))
	}
	if n > uint64(len(data)-prefixBytes) {
		return nil, fmt.Errorf("truncated: header length %d, but only %d bytes follow%s", n, len(data)-prefixBytes, beginning(data))
	}
	header, body := data[prefixBytes:prefixBytes+n], data[prefixBytes+n:]
	if !utf8.Valid(header) {
		return nil, errors.New("header is not UTF-8")
	}
	f := &File{Tensors: map[string]*Array{}, Opaque: map[string]string{}}
	h := headerReader{json.NewDecoder(bytes.NewReader(header))}
	h.UseNumber()
	var entries []entry
	seen := map[string]bool{}
	err := h.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("name %q occurs twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			return h.metadata(f)
		}
		e, err := h.entry()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		e.name = name
		if entries = append(entries, e); e.opaque == "" {
			f.Names = append(f.Names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if tok, err := h.Token(); err != io.EOF {
		return nil, fmt.Errorf("header: %v after its end", tok)
	}
	if err := f.attach(entries, body); err != nil {
		return nil, err
	}
	return f, nil
}

// foreign lists first bytes of other files that are found in place of weights, with advice.
var foreign = []struct{ start, advice string }{
	{"version https://git-lfs", "a pointer of Git LFS in place of the file: fetch it by git lfs pull"},
	{"<", "a page in HTML or XML, such as that of a refused download, in place of the file: download it again"},
	{"PK\x03\x04", "a zip archive, as torch.save writes: convert it to safetensors"},
	{"\x80\x02", "a pickle of Python: convert it to safetensors"},
	{"GGUF", "a GGUF file: weights are read from safetensors"},
	{"{", "JSON: an index is given by a name that ends in .json"},
}

// beginning describes the first bytes of a file that is not safetensors.
func beginning(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	for _, f := range foreign {
		if strings.HasPrefix(string(data[:min(len(data), len(f.start))]), f.start) {
			return fmt.Sprintf("; the file begins with %q: %s", data[:min(len(data), 24)], f.advice)
		}
	}
	return fmt.Sprintf("; the file begins with %q", data[:min(len(data), 24)])
}

// attach cuts the data part into the tensors.
func (f *File) attach(entries []entry, body []byte) error {
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := 0
	for _, e := range entries {
		size, err := e.end-e.begin, error(nil)
		if e.opaque == "" {
			size, err = ByteSize(e.dtype, e.shape)
		}
		switch {
		case err != nil:
			return fmt.Errorf("tensor %q: %w", e.name, err)
		case e.begin > e.end:
			return fmt.Errorf("tensor %q: data_offsets [%d, %d] run backwards", e.name, e.begin, e.end)
		case e.end > len(body):
			return fmt.Errorf("tensor %q: data_offsets [%d, %d] beyond the %d bytes of data (file truncated?)", e.name, e.begin, e.end, len(body))
		case e.end-e.begin != size:
			return fmt.Errorf("tensor %q: data_offsets span %d bytes, %s needs %d", e.name, e.end-e.begin, ir.T(e.dtype, e.shape...), size)
		case e.begin < at:
			return fmt.Errorf("tensor %q: data_offsets [%d, %d] overlap the tensor before, which ends at %d", e.name, e.begin, e.end, at)
		case e.begin > at:
			return fmt.Errorf("tensor %q: data_offsets [%d, %d] leave a gap after byte %d", e.name, e.begin, e.end, at)
		}
		at = e.end
		if e.opaque != "" {
			f.Opaque[e.name] = fmt.Sprintf("%s %v", e.opaque, e.shape)
			continue
		}
		f.Tensors[e.name] = &Array{Type: e.dtype, Shape: e.shape, Data: body[e.begin:e.end:e.end]}
	}
	if at != len(body) {
		return fmt.Errorf("%d bytes of data belong to no tensor", len(body)-at)
	}
	return nil
}

// entry is one tensor's row of the header.
type entry struct {
	name       string
	dtype      ir.DType
	opaque     string // the name of an unsupported element type
	shape      []int
	begin, end int
}

// headerReader reads the header token by token. Its depth is fixed, so a hostile file cannot cause deep recursion.
type headerReader struct{ *json.Decoder }

// next is the decoder's Token with a readable error.
func (h headerReader) next() (json.Token, error) {
	tok, err := h.Token()
	if err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, errors.New("JSON ends early")
		}
		return nil, fmt.Errorf("bad JSON near byte %d: %w", h.InputOffset(), err)
	}
	return tok, nil
}

func (h headerReader) open(delim json.Delim, what string) error {
	tok, err := h.next()
	if err != nil {
		return err
	}
	if tok != delim {
		return fmt.Errorf("%s expected, found %v", what, tok)
	}
	return nil
}

// object calls read for each key; read must consume the value.
func (h headerReader) object(read func(key string) error) error {
	if err := h.open('{', "an object"); err != nil {
		return err
	}
	return h.fields(read)
}

// fields is object after the opening brace.
func (h headerReader) fields(read func(key string) error) error {
	for h.More() {
		key, err := h.string()
		if err != nil {
			return err
		}
		if err := read(key); err != nil {
			return err
		}
	}
	_, err := h.next()
	return err
}

func (h headerReader) string() (string, error) {
	tok, err := h.next()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("a string expected, found %v", tok)
	}
	return s, nil
}

// ints reads an array of integers that are not negative.
func (h headerReader) ints() ([]int, error) {
	if err := h.open('[', "an array"); err != nil {
		return nil, err
	}
	out := []int{}
	for h.More() {
		tok, err := h.next()
		if err != nil {
			return nil, err
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("an integer expected, found %v", tok)
		}
		n, err := strconv.ParseUint(num.String(), 10, strconv.IntSize-1)
		if err != nil {
			return nil, fmt.Errorf("%s is not an integer from 0 to 2^%d-1", num, strconv.IntSize-1)
		}
		out = append(out, int(n))
	}
	_, err := h.next()
	return out, err
}

func (h headerReader) metadata(f *File) error {
	tok, err := h.next()
	switch {
	case err == nil && tok == nil: // null
		return nil
	case err == nil && tok != json.Delim('{'):
		err = fmt.Errorf("an object expected, found %v", tok)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", metadataKey, err)
	}
	f.Metadata = map[string]string{}
	err = h.fields(func(key string) error {
		if _, twice := f.Metadata[key]; twice {
			return fmt.Errorf("key %q occurs twice", key)
		}
		value, err := h.string()
		f.Metadata[key] = value
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", metadataKey, err)
	}
	return nil
}

func (h headerReader) entry() (entry, error) {
	var e entry
	seen := map[string]bool{}
	err := h.object(func(key string) (err error) {
		if seen[key] {
			return fmt.Errorf("%s occurs twice", key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			e.dtype, e.opaque, err = h.dtype()
		case "shape":
			e.shape, err = h.ints()
		case "data_offsets":
			var at []int
			at, err = h.ints()
			if err == nil && len(at) != 2 {
				err = fmt.Errorf("2 numbers expected, found %d", len(at))
			}
			if err == nil {
				e.begin, e.end = at[0], at[1]
			}
		default:
			return fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return e, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return e, fmt.Errorf("%s is missing", key)
		}
	}
	return e, nil
}

// dtype parses an element type, or returns the name of an unsupported one.
func (h headerReader) dtype() (d ir.DType, opaque string, err error) {
	s, err := h.string()
	if err != nil {
		return ir.Invalid, "", err
	}
	for _, t := range safetensorsTypes {
		if t.name == s {
			return t.dtype, "", nil
		}
	}
	if s == "" {
		return ir.Invalid, "", errors.New("the element type has no name")
	}
	return ir.Invalid, s, nil
}

func knownTypes() string {
	var names []string
	for _, t := range safetensorsTypes {
		names = append(names, t.name)
	}
	return strings.Join(names, " ")
}

// WriteSafetensors writes a temporary file next to path and renames it, so that path never holds a part of it.
// Tensors are ordered by falling element size, then as in Names, which keeps each one aligned.
func WriteSafetensors(path string, f *File) error {
	data, err := f.Bytes()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	defer os.Remove(tmp.Name()) // gone already after the rename
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("safetensors: writing %s: %w", path, err)
	}
	return nil
}

// Bytes returns the encoded file. It fails for an array that Check refuses.
func (f *File) Bytes() ([]byte, error) {
	names, err := f.order()
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	var head bytes.Buffer
	enc := json.NewEncoder(&head)
	enc.SetEscapeHTML(false)
	field := func(key string, value any) {
		sep := byte(',')
		if head.Len() == 0 {
			sep = '{'
		}
		head.WriteByte(sep)
		for _, v := range []any{key, value} {
			enc.Encode(v) // strings, integers and structs of them: can not fail
			head.Truncate(head.Len() - 1)
			head.WriteByte(':')
		}
		head.Truncate(head.Len() - 1)
	}
	if len(f.Metadata) > 0 {
		field(metadataKey, f.Metadata)
	}
	at := 0
	for _, name := range names {
		a := f.Tensors[name]
		field(name, struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{typeName(a.Type), append([]int{}, a.Shape...), [2]int{at, at + len(a.Data)}})
		at += len(a.Data)
	}
	if head.Len() == 0 {
		head.WriteByte('{')
	}
	head.WriteByte('}')
	for head.Len()%8 != 0 {
		head.WriteByte(' ')
	}
	out := make([]byte, prefixBytes, prefixBytes+head.Len()+at)
	binary.LittleEndian.PutUint64(out, uint64(head.Len()))
	out = append(out, head.Bytes()...)
	for _, name := range names {
		out = append(out, f.Tensors[name].Data...)
	}
	return out, nil
}

// order returns the tensor names in the order of the data.
func (f *File) order() ([]string, error) {
	names := slices.Clone(f.Names)
	if names == nil {
		for name := range f.Tensors {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	if len(names) != len(f.Tensors) {
		return nil, fmt.Errorf("%d names for %d tensors", len(names), len(f.Tensors))
	}
	seen := map[string]bool{}
	for _, name := range names {
		a, ok := f.Tensors[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("name %q has no tensor", name)
		case seen[name]:
			return nil, fmt.Errorf("name %q occurs twice", name)
		case name == metadataKey || !utf8.ValidString(name):
			return nil, fmt.Errorf("%q can not be a tensor's name", name)
		}
		seen[name] = true
		if err := a.Check(); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	slices.SortStableFunc(names, func(x, y string) int {
		return cmp.Compare(f.Tensors[y].Type.Bytes(), f.Tensors[x].Type.Bytes())
	})
	return names, nil
}

func typeName(d ir.DType) string {
	for _, t := range safetensorsTypes {
		if t.dtype == d {
			return t.name
		}
	}
	panic("safetensors: no name for " + d.String())
}
