package array

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

func file(header string, body int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, body)...)
}

func TestHostileFiles(t *testing.T) {
	tensor := func(dtype, shape, offsets string) string {
		return fmt.Sprintf(`{"x":{"dtype":%q,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
	}
	huge := binary.LittleEndian.AppendUint64(nil, 1<<63)
	lying := file("{}", 0)
	lying[0] = 200
	good := file(tensor("F32", "[2]", "[0,8]"), 8)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "truncated: 0 bytes"},
		{"short prefix", []byte{1, 2, 3}, "truncated: 3 bytes"},
		{"huge header", huge, "beyond the limit"},
		{"header length lies", lying, "truncated: header length 200"},
		{"short header length", append([]byte{5}, good[1:]...), "JSON ends early"},
		{"no header", file("", 0), "JSON ends early"},
		{"truncated data", good[:len(good)-1], "beyond the 7 bytes of data"},
		{"trailing data", append(good[:len(good):len(good)], 0), "1 bytes of data belong to no tensor"},
		{"trailing JSON", file("{}{}", 0), "after its end"},
		{"not an object", file("[]", 0), "an object expected"},
		{"null", file("null", 0), "an object expected"},
		{"not UTF-8", file("{\"\xff\":1}", 0), "not UTF-8"},
		{"broken JSON", file(`{"x":}`, 0), "bad JSON"},
		{"deep arrays", file(`{"x":`+strings.Repeat("[", 1<<20), 0), "an object expected"},
		{"deep objects", file(strings.Repeat(`{"x":`, 1<<18), 0), `unknown key "x"`},
		{"deep shape", file(`{"x":{"shape":`+strings.Repeat("[", 1<<18), 0), "an integer expected"},
		{"type without a name", file(tensor("", "[2]", "[0,2]"), 2), "the element type has no name"},
		{"opaque, out of range", file(tensor("F8_E4M3", "[2]", "[0,3]"), 2), "beyond the 2 bytes of data"},
		{"opaque, gap", file(tensor("F8_E4M3", "[1]", "[1,2]"), 2), "leave a gap after byte 0"},
		{"pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"), `begins with "version https://git-lfs.": a pointer of Git LFS`},
		{"page", []byte("<!DOCTYPE html><html><body>401</body></html>"), "a page in HTML or XML"},
		{"short page", []byte("<html>"), "a page in HTML or XML"},
		{"archive", append([]byte("PK\x03\x04"), make([]byte, 100)...), "a zip archive, as torch.save writes"},
		{"something", []byte("Not found: weights"), `the file begins with "Not found: weights"`},
		{"metadata a number", file(`{"__metadata__":3}`, 0), "__metadata__: an object expected, found 3"},
		{"type is a number", file(`{"x":{"dtype":5}}`, 0), "a string expected"},
		{"wrong size", file(tensor("F32", "[2]", "[0,4]"), 4), "span 4 bytes, f32[2] needs 8"},
		{"backwards", file(tensor("F32", "[1]", "[4,0]"), 4), "run backwards"},
		{"out of range", file(tensor("F32", "[1]", "[400,404]"), 4), "beyond the 4 bytes"},
		{"negative offset", file(tensor("F32", "[1]", "[-4,0]"), 4), "-4 is not an integer"},
		{"float dimension", file(tensor("F32", "[1.0]", "[0,4]"), 4), "1.0 is not an integer"},
		{"negative dimension", file(tensor("F32", "[-1]", "[0,4]"), 4), "-1 is not an integer"},
		{"dimension overflow", file(tensor("F32", "[99999999999999999999]", "[0,4]"), 4), "is not an integer"},
		{"size overflow", file(tensor("F32", "[4611686018427387904,4]", "[0,0]"), 0), "does not fit in memory"},
		{"three offsets", file(tensor("F32", "[1]", "[0,4,4]"), 4), "2 numbers expected, found 3"},
		{"missing key", file(`{"x":{"dtype":"F32","shape":[]}}`, 4), "data_offsets is missing"},
		{"extra key", file(`{"x":{"dtype":"F32","size":4}}`, 4), `unknown key "size"`},
		{"key twice", file(`{"x":{"dtype":"F32","dtype":"F32"}}`, 4), "dtype occurs twice"},
		{"name twice", file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), `name "x" occurs twice`},
		{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, 0), "occurs twice"},
		{"metadata number", file(`{"__metadata__":{"a":1}}`, 0), "a string expected"},
		{"overlap", file(`{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "overlap"},
		{"same place", file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "overlap"},
		{"gap", file(tensor("F32", "[1]", "[4,8]"), 8), "gap after byte 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseSafetensors(c.data)
			require.ErrorContains(t, err, c.want)
			path := filepath.Join(t.TempDir(), "x.safetensors")
			require.NoError(t, os.WriteFile(path, c.data, 0o644))
			_, err = ReadSafetensors(path)
			require.ErrorContains(t, err, path)
		})
	}
	_, err := ReadSafetensors(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
	_, err = ReadSafetensors(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRoundTrip(t *testing.T) {
	f := &File{Tensors: map[string]*Array{}, Metadata: map[string]string{"b": "<&>\n\"é", "a": ""}}
	for i, d := range allTypes {
		name := fmt.Sprintf("%d %s\" <é>", i, d)
		f.Tensors[name] = FromInt64s(d, []int{1, 3}, []int64{int64(i), 1, 0})
	}
	f.Tensors["scalar"] = FromFloat64s(ir.F64, nil, []float64{2.5})
	f.Tensors["empty"] = New(ir.F32, 0, 7)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	require.NoError(t, WriteSafetensors(path, f))
	g, err := ReadSafetensors(path)
	require.NoError(t, err)
	require.Equal(t, f.Metadata, g.Metadata)
	require.Len(t, g.Names, len(f.Tensors))
	for name, a := range f.Tensors {
		require.Equal(t, a.String(), g.Tensors[name].String())
		require.Equal(t, a.Data, g.Tensors[name].Data)
	}
	rest, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, rest, 1, "the temporary file is gone")

	data, err := (&File{}).Bytes()
	require.NoError(t, err)
	g, err = ParseSafetensors(data)
	require.NoError(t, err)
	require.Empty(t, g.Tensors)
}

func TestWriteRefuses(t *testing.T) {
	x := New(ir.F32, 1)
	for want, f := range map[string]*File{
		"1 names for 0 tensors":       {Names: []string{"x"}},
		`name "y" has no tensor`:      {Tensors: map[string]*Array{"x": x}, Names: []string{"y"}},
		`name "x" occurs twice`:       {Tensors: map[string]*Array{"x": x, "y": x}, Names: []string{"x", "x"}},
		"can not be a tensor's name":  {Tensors: map[string]*Array{"__metadata__": x}},
		"needs 8 bytes of data":       {Tensors: map[string]*Array{"x": {Type: ir.F32, Shape: []int{2}, Data: x.Data}}},
		"the array is nil":            {Tensors: map[string]*Array{"x": nil}},
		"element type number 10 has ": {Tensors: map[string]*Array{"x": {Type: ir.Sem}}},
	} {
		path := filepath.Join(t.TempDir(), "x")
		require.ErrorContains(t, WriteSafetensors(path, f), want)
		require.NoFileExists(t, path)
	}
	require.Error(t, WriteSafetensors(filepath.Join(t.TempDir(), "no", "such", "dir"), &File{}))
}

// The reference files were written by the format's own library: reading and writing gives their bytes back.
func TestFixturesRoundTrip(t *testing.T) {
	paths, err := filepath.Glob("../../tests/fixtures/*.safetensors")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		f, err := ReadSafetensors(path)
		require.NoError(t, err)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := f.Bytes()
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s changed", path)
		for name, a := range f.Tensors {
			require.False(t, Compare(a, a).NaN, "%s: %s", path, name)
			require.Equal(t, a.Data, a.Convert(ir.F64).Convert(a.Type).Data, "%s: %s", path, name)
		}
	}
}

func FuzzParseSafetensors(f *testing.F) {
	f.Add(file("{}", 0))
	f.Add(file(`{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"a":"b"}}`, 8))
	f.Add(file(`{"x":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"y":{"dtype":"I64","shape":[0,5],"data_offsets":[2,2]}}`, 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ParseSafetensors(data)
		if err != nil {
			return
		}
		again, err := g.Bytes()
		if _, bad := g.Tensors[metadataKey]; bad {
			t.Fatal("metadata became a tensor")
		}
		require.NoError(t, err)
		h, err := ParseSafetensors(again)
		require.NoError(t, err)
		require.Equal(t, len(g.Tensors), len(h.Tensors))
		for name, a := range g.Tensors {
			require.NoError(t, a.Check())
			require.Equal(t, a.String(), h.Tensors[name].String())
			require.Equal(t, a.Data, h.Tensors[name].Data)
			a.Float64s()
		}
	})
}

// Tensors of element types that are none of ours, as quantised checkpoints have them, are names; only reading one is an error. A file without
// metadata may say so by null.
func TestOpaque(t *testing.T) {
	data := file(`{"__metadata__":null,"w":{"dtype":"F8_E4M3","shape":[4,8],"data_offsets":[0,32]},"x":{"dtype":"F32","shape":[1],"data_offsets":[32,36]},`+
		`"c":{"dtype":"C64","shape":[1],"data_offsets":[36,44]},"u":{"dtype":"F4","shape":[3,2],"data_offsets":[44,47]}}`, 47)
	data[len(data)-11-4+2], data[len(data)-11-4+3] = 0x80, 0x3f
	f, err := ParseSafetensors(data)
	require.NoError(t, err)
	require.Nil(t, f.Metadata)
	require.Equal(t, []string{"x"}, f.Names)
	require.Equal(t, map[string]string{"w": "F8_E4M3 [4 8]", "c": "C64 [1]", "u": "F4 [3 2]"}, f.Opaque)
	x, err := f.Tensor("x")
	require.NoError(t, err)
	require.Equal(t, []float32{1}, x.Float32s())
	_, err = f.Tensor("w")
	require.ErrorContains(t, err, `tensor "w" is F8_E4M3 [4 8], an element type that is not read (known: F64 F32 F16 BF16 I64 I32 U32 U16 BOOL)`)
	_, err = f.Tensor("y")
	require.ErrorContains(t, err, `tensor "y" is missing`)

	path := filepath.Join(t.TempDir(), "whole.safetensors")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	_, err = ReadSafetensors(path) // whoever reads a whole file wants all of it
	require.ErrorContains(t, err, `tensor "c" is C64 [1]`)
}
