package resp

import (
	"fmt"
	"math"
)

// TIME
func timeNow(c *connection, _ [][]byte) error {
	now := c.server.options.Clock()
	c.out.writeArrayHeader(2)
	c.out.writeBulkString(fmt.Sprint(now.Unix()))
	c.out.writeBulkString(fmt.Sprint(now.Nanosecond() / 1000))
	return nil
}

// ROLE: balancers take the server for one that accepts writes. The offset of a replication log has no meaning here.
func role(c *connection, _ [][]byte) error {
	c.out.writeReply(Array{"master", 0, Array{}})
	return nil
}

// MODULE LIST
func moduleList(c *connection, _ [][]byte) error {
	c.out.writeArrayHeader(0)
	return nil
}

// DBSIZE
func dbSize(c *connection, _ [][]byte) error {
	n, err := c.countKeys()
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(math.Round(n.keys[c.database])))
	return nil
}
