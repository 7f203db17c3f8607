package child

import (
	"fmt"
	"strings"
	"sync"
)

// Noise keeps the head and the tail of a worker's output since the last Reset.
type Noise struct {
	mu         sync.Mutex
	head, tail []byte
	cut        int // bytes dropped between them
}

const noiseKept = 4 << 10 // bytes of head and of tail

func (n *Noise) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := min(noiseKept-len(n.head), len(p))
	n.head = append(n.head, p[:k]...)
	n.tail = append(n.tail, p[k:]...)
	if over := len(n.tail) - noiseKept; over > 0 {
		n.cut += over
		n.tail = append(n.tail[:0], n.tail[over:]...)
	}
	return len(p), nil
}

// Reset discards the output so far.
func (n *Noise) Reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.head, n.tail, n.cut = n.head[:0], n.tail[:0], 0
}

func (n *Noise) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	gap := ""
	if n.cut > 0 {
		gap = fmt.Sprintf("\n... %d bytes ...\n", n.cut)
	}
	return strings.TrimSpace(string(n.head) + gap + string(n.tail))
}
