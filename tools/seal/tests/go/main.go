// Verifies a log with golang.org/x/mod/sumdb: signatures, tiles, inclusion of each entry, consistency of two checkpoints.
//
//	main VKEY LOG [EARLIER-CHECKPOINT...]
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

// tiles reads the tiles of a folder. In tlog-tiles, a path does not contain the height, and entries are not called data.
type tiles struct {
	folder string
	read   map[string][]byte
}

func (t tiles) Height() int                     { return height }
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (t tiles) bytes(tile tlog.Tile) ([]byte, error) {
	path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", height), "tile/", 1)
	path = strings.Replace(path, "/data/", "/entries/", 1)
	if bytes, ok := t.read[path]; ok {
		return bytes, nil
	}
	bytes, err := os.ReadFile(filepath.Join(t.folder, path))
	t.read[path] = bytes
	return bytes, err
}

func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range wanted {
		bytes, err := t.bytes(tile)
		if err != nil {
			return nil, err
		}
		all = append(all, bytes)
	}
	return all, nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "the log is not valid:", err)
		os.Exit(1)
	}
}

func require(holds bool, reason string) {
	if !holds {
		check(fmt.Errorf("%s", reason))
	}
}

func open(path string, verifier note.Verifier) tlog.Tree {
	text, err := os.ReadFile(path)
	check(err)
	signed, err := note.Open(text, note.VerifierList(verifier))
	check(err)
	lines := strings.Split(signed.Text, "\n")
	require(len(lines) >= 4 && lines[0] == verifier.Name(), "no checkpoint of the log")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	check(err)
	root, err := tlog.ParseHash(lines[2])
	check(err)
	return tlog.Tree{N: size, Hash: root}
}

func main() {
	vkey, err := os.ReadFile(os.Args[1])
	check(err)
	verifier, err := note.NewVerifier(strings.TrimSpace(string(vkey)))
	check(err)
	folder := os.Args[2]
	tree := open(filepath.Join(folder, "checkpoint"), verifier)
	files := tiles{folder, map[string][]byte{}}
	reader := tlog.TileHashReader(tree, files)
	root, err := tlog.TreeHash(tree.N, reader)
	check(err)
	require(root == tree.Hash, "the tiles have another root")

	for first := int64(0); first < tree.N; first += 1 << height {
		width := min(tree.N-first, 1<<height)
		bundle, err := files.bytes(tlog.Tile{H: height, L: -1, N: first >> height, W: int(width)})
		check(err)
		for index := first; index < first+width; index++ {
			require(len(bundle) >= 2, "an entry is missing")
			end := 2 + int(binary.BigEndian.Uint16(bundle))
			require(len(bundle) >= end, "an entry is incomplete")
			hash := tlog.RecordHash(bundle[2:end])
			bundle = bundle[end:]
			proof, err := tlog.ProveRecord(tree.N, index, reader)
			check(err)
			check(tlog.CheckRecord(proof, tree.N, tree.Hash, index, hash))
		}
		require(len(bundle) == 0, "an entry too many")
	}
	for _, path := range os.Args[3:] {
		earlier := open(path, verifier)
		proof, err := tlog.ProveTree(tree.N, earlier.N, reader)
		check(err)
		check(tlog.CheckTree(proof, tree.N, tree.Hash, earlier.N, earlier.Hash))
	}
	fmt.Printf("Go verifies %d entries and %d earlier checkpoints\n", tree.N, len(os.Args)-3)
}
