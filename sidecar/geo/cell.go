package geo

// maxSteps is how many bits a score has of each coordinate.
const maxSteps = 26

// cell is a rectangle of a grid with 2^steps columns and rows. Column 0 is the westernmost one, row 0 the southernmost.
type cell struct {
	column, row uint32
	steps       int
}

// cellAt returns the cell of a grid in which a place is. The rows lie between two latitudes.
func cellAt(p Point, steps int, maxLatitude float64) cell {
	return cell{place(p.Longitude, MaxLongitude, steps), place(p.Latitude, maxLatitude, steps), steps}
}

func place(degrees, limit float64, steps int) uint32 {
	return uint32(int64((degrees + limit) / (2 * limit) * float64(uint64(1)<<steps)))
}

// cellOf is the inverse of cell.bits.
func cellOf(bits uint64, steps int) cell {
	return cell{column: gather(bits >> 1), row: gather(bits), steps: steps}
}

// bits returns the number of the cell, in which the bits of the column and of the row alternate.
func (c cell) bits() uint64 { return spread(c.column)<<1 | spread(c.row) }

// groups has the masks of every second group of 1, 2, 4 ... bits.
var groups = [...]uint64{0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f, 0x00ff00ff00ff00ff,
	0x0000ffff0000ffff}

// spread puts a zero before each bit of n.
func spread(n uint32) uint64 {
	bits := uint64(n)
	for i := len(groups) - 1; i >= 0; i-- {
		bits = (bits | bits<<(1<<i)) & groups[i]
	}
	return bits
}

// gather is the inverse of spread.
func gather(bits uint64) uint32 {
	bits &= groups[0]
	for i := 1; i < len(groups); i++ {
		bits = (bits | bits>>(1<<(i-1))) & groups[i]
	}
	return uint32(bits | bits>>16)
}

// score returns the least score of a place in the cell.
func (c cell) score() uint64 { return c.bits() << (2 * (maxSteps - c.steps)) }

// scores returns the range of the scores of places in the cell; max is not one of them.
func (c cell) scores() Range {
	bits, shift := c.bits(), 2*(maxSteps-c.steps)
	return Range{Min: float64(bits << shift), Max: float64((bits + 1) << shift)}
}

// neighbor returns the cell that is some columns further east, and rows further north. Behind the edge of the grid are
// the cells of the other side. The easternmost place and the northernmost one are just outside of the grid; as in
// Redis, they stay there if only the other coordinate changes.
func (c cell) neighbor(columns, rows int) cell {
	mask := uint32(1)<<c.steps - 1
	if columns != 0 {
		c.column = (c.column + uint32(columns)) & mask
	}
	if rows != 0 {
		c.row = (c.row + uint32(rows)) & mask
	}
	return c
}

func (c cell) longitudes() (west, east float64) {
	return c.edge(c.column, MaxLongitude), c.edge(c.column+1, MaxLongitude)
}

func (c cell) latitudes() (south, north float64) {
	return c.edge(c.row, MaxLatitude), c.edge(c.row+1, MaxLatitude)
}

// edge returns where a column or a row begins. The conversion is for compilers that add without rounding the product.
func (c cell) edge(n uint32, limit float64) float64 {
	return -limit + float64(float64(n)/float64(uint64(1)<<c.steps)*(2*limit))
}
