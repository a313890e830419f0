package openstack

import "time"

// Later makes snapshots of c older.
func (c *Client) Later(d time.Duration) {
	c.snapshots.mu.Lock()
	defer c.snapshots.mu.Unlock()
	c.snapshots.later += d
}
