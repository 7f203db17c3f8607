// Package crash substitutes a disk for journals that fails on request, and that can compute what a loss of power
// leaves: of unsynced data any part, in any order, torn or as zeros.
package crash

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gdngen/gdngen/internal/disk"
	"github.com/gdngen/gdngen/internal/rotate"
)

// Disk passes changes on to the operating system, and records those below Root.
type Disk struct {
	Root   string
	FailAt int   // the operation that fails, from 1; 0: none
	For    int   // number of failing operations; 0: one
	Err    error // their error; nil: no space left

	mu    sync.Mutex
	ops   []op
	nodes map[string]*node // by path, of files opened so far
	size  map[*node]int64
	acks  []int // see Ack
}

// node is a file, independent of its name.
type node struct{ id int }

// op is a change. Its kind determines the fields in use.
type op struct {
	kind     string // create, mkdir, rename, remove, write, truncate, sync, syncdir
	path, to string
	node     *node
	at       int64
	data     []byte
	failed   bool
}

// New returns a disk that records changes below a folder. Existing content counts as synced.
func New(root string) *Disk {
	return &Disk{Root: root, nodes: map[string]*node{}, size: map[*node]int64{}}
}

// Under runs do with the disk in use.
func (d *Disk) Under(do func()) {
	defer disk.Use(d)()
	do()
}

// Ops returns the number of changes so far.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ops)
}

// Name describes a change, numbered from 1.
func (d *Disk) Name(n int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.ops[n-1]
	return fmt.Sprintf("%s %s", o.kind, filepath.Base(o.path))
}

// Ack notes that one more record is promised to be on the disk.
func (d *Disk) Ack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acks = append(d.acks, len(d.ops))
}

// Acked returns the number of promises before a change.
func (d *Disk) Acked(n int) (count int) {
	for _, at := range d.acks {
		if at <= n {
			count++
		}
	}
	return count
}

// add records a change below Root; it returns the error of a failing operation.
func (d *Disk) add(o op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !strings.HasPrefix(o.path, d.Root) {
		return nil
	}
	d.ops = append(d.ops, o)
	n := len(d.ops)
	if d.FailAt == 0 || n < d.FailAt || n >= d.FailAt+max(1, d.For) {
		return nil
	}
	d.ops[n-1].failed = true
	err := d.Err
	if err == nil {
		err = syscall.ENOSPC
	}
	return &fs.PathError{Op: o.kind, Path: o.path, Err: err}
}

// of returns the node of a path.
func (d *Disk) of(path string) *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[path]
	if n == nil {
		n = &node{len(d.nodes)}
		d.nodes[path] = n
		if info, err := os.Stat(path); err == nil {
			d.size[n] = info.Size()
		}
	}
	return n
}

func (d *Disk) resize(n *node, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size[n] = size
}

func (d *Disk) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	_, err := os.Stat(path)
	if isNew := os.IsNotExist(err); isNew && flag&os.O_CREATE != 0 {
		d.forget(path)
		if err := d.add(op{kind: "create", path: path, node: d.of(path)}); err != nil {
			return nil, err
		}
	}
	n := d.of(path)
	if flag&os.O_TRUNC != 0 {
		if err := d.add(op{kind: "truncate", path: path, node: n}); err != nil {
			return nil, err
		}
		d.resize(n, 0)
	}
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, node: n, path: path}, nil
}

func (d *Disk) CreateTemp(dir, pattern string) (disk.File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	d.forget(f.Name())
	n := d.of(f.Name())
	if err := d.add(op{kind: "create", path: f.Name(), node: n}); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	return &file{File: f, disk: d, node: n, path: f.Name()}, nil
}

func (d *Disk) forget(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, path)
}

func (d *Disk) Rename(from, to string) error {
	n := d.of(from)
	if err := d.add(op{kind: "rename", path: from, to: to, node: n}); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, from)
	d.nodes[to] = n
	return nil
}

func (d *Disk) Remove(path string) error {
	if _, err := os.Lstat(path); err == nil {
		if err := d.add(op{kind: "remove", path: path}); err != nil {
			return err
		}
	}
	d.forget(path)
	return os.Remove(path)
}

func (d *Disk) Truncate(path string, size int64) error {
	n := d.of(path)
	if err := d.add(op{kind: "truncate", path: path, node: n, at: size}); err != nil {
		return err
	}
	d.resize(n, size)
	return os.Truncate(path, size)
}

func (d *Disk) Mkdir(path string, mode fs.FileMode) error {
	if _, err := os.Stat(path); err == nil {
		return os.Mkdir(path, mode)
	}
	if err := d.add(op{kind: "mkdir", path: path}); err != nil {
		return err
	}
	return os.Mkdir(path, mode)
}

func (d *Disk) SyncDir(path string) error { return d.add(op{kind: "syncdir", path: path}) }

// file is an open file of the disk.
type file struct {
	*os.File
	disk *Disk
	node *node
	path string
	pos  int64
}

func (f *file) Write(b []byte) (int, error) {
	n, err := f.write(b, f.end(), func(b []byte) (int, error) { return f.File.Write(b) })
	f.pos += int64(n)
	return n, err
}

// end returns the position of Write: files are written only from the beginning or at the end.
func (f *file) end() int64 {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.disk.size[f.node]
}

func (f *file) WriteAt(b []byte, at int64) (int, error) {
	return f.write(b, at, func(b []byte) (int, error) { return f.File.WriteAt(b, at) })
}

// write records a write. A failing one writes half.
func (f *file) write(b []byte, at int64, do func([]byte) (int, error)) (int, error) {
	fault := f.disk.add(op{kind: "write", path: f.path, node: f.node, at: at, data: bytes.Clone(b)})
	if fault != nil {
		b = b[:len(b)/2]
	}
	n, err := do(b)
	f.disk.resize(f.node, max(f.end(), at+int64(n)))
	if fault != nil {
		return n, fault
	}
	return n, err
}

func (f *file) Truncate(size int64) error {
	if err := f.disk.add(op{kind: "truncate", path: f.path, node: f.node, at: size}); err != nil {
		return err
	}
	f.disk.resize(f.node, size)
	return f.File.Truncate(size)
}

func (f *file) Sync() error { return f.disk.add(op{kind: "sync", path: f.path, node: f.node}) }

// inode is a file on the disk: its durable content, and pending changes.
type inode struct {
	text    []byte
	pending []op
}

func (i *inode) apply(o op, r *rand.Rand) {
	switch o.kind {
	case "truncate":
		if int(o.at) < len(i.text) {
			i.text = i.text[:o.at]
		} else {
			i.text = append(i.text, make([]byte, int(o.at)-len(i.text))...)
		}
	case "write":
		from, to := 0, len(o.data)
		if r != nil { // torn, at either end
			switch r.IntN(4) {
			case 0:
				to = r.IntN(to + 1)
			case 1:
				from = r.IntN(to + 1)
			}
		}
		if end := int(o.at) + to; end > len(i.text) {
			i.text = append(i.text, make([]byte, end-len(i.text))...)
		}
		copy(i.text[int(o.at)+from:], o.data[from:to])
	}
}

// Image writes into dir a random state that a loss of power after the first n changes may leave, drawn by r.
func (d *Disk) Image(t testing.TB, n int, r *rand.Rand, dir string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	files := map[*node]*inode{}
	var order []*inode
	names := map[string]*node{} // durable; nil: a folder
	var pending []op            // of names
	link := func(o op) {
		switch o.kind {
		case "create":
			names[o.path] = o.node
		case "mkdir":
			names[o.path] = nil
		case "rename":
			delete(names, o.path)
			names[o.to] = o.node
		case "remove":
			delete(names, o.path)
		}
	}
	for _, o := range d.ops[:n] {
		if o.node != nil && files[o.node] == nil {
			files[o.node] = &inode{}
			order = append(order, files[o.node])
		}
		switch {
		case o.kind == "write" && o.failed:
			o.data = o.data[:len(o.data)/2]
			files[o.node].pending = append(files[o.node].pending, o)
		case o.failed:
		case o.kind == "write", o.kind == "truncate":
			files[o.node].pending = append(files[o.node].pending, o)
		case o.kind == "sync":
			for _, p := range files[o.node].pending {
				files[o.node].apply(p, nil)
			}
			files[o.node].pending = nil
		case o.kind == "syncdir":
			var left []op
			for _, p := range pending {
				if filepath.Dir(p.path) == o.path || p.to != "" && filepath.Dir(p.to) == o.path {
					link(p)
				} else {
					left = append(left, p)
				}
			}
			pending = left
		default:
			pending = append(pending, o)
		}
	}
	for _, o := range pending {
		if r.IntN(2) == 0 {
			link(o)
		}
	}
	for _, i := range order {
		for _, o := range i.pending {
			if r.IntN(2) == 0 {
				i.apply(o, r)
			}
		}
	}
	d.write(t, names, files, dir)
}

// write makes the folder of an image. The content of a lost folder is lost.
func (d *Disk) write(t testing.TB, names map[string]*node, files map[*node]*inode, dir string) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool {
		for at := filepath.Dir(path); len(at) > len(d.Root); at = filepath.Dir(at) {
			if n, ok := names[at]; !ok || n != nil {
				return false
			}
		}
		return true
	}
	for path, n := range names {
		if !strings.HasPrefix(path, d.Root+"/") || !there(path) {
			continue
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, d.Root))
		if n == nil {
			must(os.MkdirAll(to, 0o755))
			continue
		}
		must(os.MkdirAll(filepath.Dir(to), 0o755))
		must(os.WriteFile(to, files[n].text, 0o644))
	}
}

// Few returns sample, or many if all tests are requested.
func Few(sample, many int) int {
	if rotate.All() {
		return many
	}
	return rotate.Short(sample)
}

// Points draws numbers of changes after which power is lost. There are few more points than changes.
func (d *Disk) Points(n int) []int {
	return rotate.Sample(7, d.All(), n)
}

// Losses calls check for several random states after each of some numbers of changes: with the folder, which is removed
// afterwards, the number of changes, and a description.
func (d *Disk) Losses(t testing.TB, points []int, dice int, check func(dir string, n int, what string)) {
	t.Helper()
	for _, n := range points {
		for seed := range dice {
			dir := filepath.Join(t.TempDir(), "x")
			d.Image(t, n, rand.New(rand.NewPCG(uint64(n), uint64(seed))), dir)
			check(dir, n, fmt.Sprintf("change %d of %d, dice %d", n, d.Ops(), seed))
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d losses of power at %d changes", dice*len(points), d.Ops())
}

// All returns every number of changes after which power can be lost.
func (d *Disk) All() []int {
	all := make([]int, d.Ops()+1)
	for i := range all {
		all[i] = i
	}
	return all
}

// Flips flips single bits of a file, and requires that read returns an error: 2,000 random bits, or fewer in a sample.
func Flips(t testing.TB, path string, read func() error) {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err == nil {
		err = read()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	n := Few(400, 2000)
	for range n {
		bit := r.IntN(8 * len(whole))
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if read() == nil {
			t.Fatalf("bit %d of byte %d of %s is another, and nothing is said", bit%8, bit/8, filepath.Base(path))
		}
	}
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d flips seen", n, n)
}
