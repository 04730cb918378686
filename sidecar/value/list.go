package value

import "slices"

// Item is an element of a list.
type Item struct {
	Text string

	position string
}

// Items returns the elements of the list, until it is changed.
func (c *Change) Items() []Item {
	if c.items == nil && c.length > 0 {
		c.items = make([]Item, 0, c.length)
		for position, text := range c.All() {
			c.items = append(c.items, Item{text, position})
		}
	}
	return c.items
}

// Push adds an element to an end of a list. A collection that is empty becomes one.
func (c *Change) Push(isFront bool, text string) {
	at := c.length
	if isFront {
		at = 0
	}
	c.addItem(at, besides("", c.nextStep(!isFront)), text)
}

// Insert adds an element beside the i-th one. It reports whether that is possible: elements that were added beside each
// other have longer and longer positions.
func (c *Change) Insert(i int, isAfter bool, text string) bool {
	pivot := c.Items()[i].position
	if steps(pivot) == maxSteps {
		return false
	}
	if isAfter {
		i++
	}
	c.addItem(i, besides(pivot, c.nextStep(isAfter)), text)
	return true
}

func (c *Change) nextStep(isAfter bool) step {
	c.pushed++
	return step{isAfter, self, c.pushed - 1}
}

// addItem adds an element that becomes the i-th one.
func (c *Change) addItem(i int, position, text string) {
	items, isKnown := c.items, c.items != nil || c.length == 0
	if c.Add(List, position, text); isKnown {
		c.items = slices.Insert(items, i, Item{text, position})
	}
}

// SetItem gives the i-th element another text.
func (c *Change) SetItem(i int, text string) {
	items := c.Items()
	c.Add(List, items[i].position, text)
	items[i].Text = text
	c.items = items
}

// RemoveItems removes the elements from the i-th one to the one before the j-th one.
func (c *Change) RemoveItems(i, j int) {
	items := c.Items()
	for _, item := range items[i:j] {
		c.Remove(item.position)
	}
	switch {
	case i == 0:
		c.items = items[j:]
	default:
		c.items = slices.Delete(items, i, j)
	}
}

// Texts returns the elements of a list in their order.
func (h *Collection) Texts() []string {
	texts := make([]string, 0, len(h.rows.list))
	for _, text := range h.All() {
		texts = append(texts, text)
	}
	return texts
}

// RemoveEqual removes elements with a text: the first ones, or, if count is negative, the last ones; with 0, all. It
// returns how many.
func (c *Change) RemoveEqual(text string, count int64) (removed int) {
	items := c.Items()
	left := max(count, -count)
	if left <= 0 { // the opposite of the least number is that number
		left = int64(len(items))
	}
	for n := 0; n < len(items) && left > 0; n++ {
		i := n
		if count < 0 {
			i = len(items) - 1 - n
		}
		if items[i].Text == text {
			c.Remove(items[i].position)
			removed++
			left--
		}
	}
	return removed
}
