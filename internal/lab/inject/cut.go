package inject

import "io"

// Cut returns a reader of the first n bytes of r, which then fails; of all of r
// for n = 0. The connection of a body that is cut is to be reset.
func Cut(r io.ReadCloser, n int) io.ReadCloser {
	if n == 0 {
		return r
	}
	return &cut{ReadCloser: r, left: n}
}

type cut struct {
	io.ReadCloser
	left int
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
