// SPDX-License-Identifier: GPL-2.0-only
/* Pages of text. */
#include "allocate.h"
#include "pages.h"

uint8_t *kinds;
void **pages;

void make_pages(void)
{
	kinds = allocate((options.ram >> options.page_shift) * sizeof(*kinds));
	pages = allocate((options.ram >> options.page_shift) * sizeof(*pages));
}

struct text_page *make_text(uint64_t page)
{
	struct text_page *text = allocate(sizeof(*text) + page_size() + page_size() / 4);

	text->ran = (uint8_t *)text->copy + page_size();
	memcpy(text->copy, ram + (page << options.page_shift), page_size());
	pages[page] = text;
	kinds[page] |= TEXT;
	return text;
}

void mark_run(uint64_t paddr)
{
	struct text_page *text = in_ram(paddr, 4) ? text_page(page_of(paddr)) : NULL;

	if (text)
		text->ran[paddr % page_size() / 4] = EVER | SINCE;
}

bool did_run(uint64_t paddr, enum ran since)
{
	struct text_page *text = text_page(page_of(paddr));

	return text && text->ran[paddr % page_size() / 4] & since;
}
