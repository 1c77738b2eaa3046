package export

import (
	"slipway/images/squashfs"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// maxHoles bounds the zeros that an image is laid out with. Engines know no holes in layers: who takes the image writes
// all of them.
const maxHoles = 16 << 30

// FewHoles refuses a tree whose holes are many times what anybody wants as zeros, and names the file with the most.
func FewHoles(image *squashfs.Image) error {
	var sum, most uint64
	var where string
	err := image.Walk(func(path string, n *squashfs.Node) error {
		if n.Data == nil {
			return nil
		}
		holes := n.Data.Size - n.Data.Held(image.Super.BlockSize)
		if sum = min(sum+holes, 1<<62); holes > most {
			most, where = holes, path
		}
		return nil
	})
	if err != nil || sum <= maxHoles {
		return err
	}
	return errs.New(errs.Conflict, "the environment's files have %s of holes, %s of it %s, and an OCI image would hold them as zeros; at most %s are written",
		units.DiskWords(int64(sum)), units.DiskWords(int64(most)), where, units.DiskWords(maxHoles)).
		With("take it as a SIF, or make the file smaller and freeze again")
}

// Contents adds up what the files of an image hold, without holes; large ones with several names once.
func Contents(image *squashfs.Image) uint64 {
	return contents(image.Root, image.Super.BlockSize, map[*squashfs.Data]bool{})
}

func contents(n *squashfs.Node, block uint32, seen map[*squashfs.Data]bool) (sum uint64) {
	const most = 1 << 62
	for _, e := range n.Children {
		sum = min(sum+contents(e.Node, block, seen), most)
		d := e.Node.Data
		if d == nil || seen[d] {
			continue
		}
		if d.Size > 1<<20 {
			seen[d] = true
		}
		sum = min(sum+d.Held(block), most)
	}
	return sum
}
