/** Lists that the server answers in pages, as one. */

/** The most items that a view shows of such a list. */
export const MOST_ITEMS = 10_000;

/** What all pages hold together, up to `MOST_ITEMS`. */
export async function allPages<T>(
  ask: (pageToken: string | undefined) => Promise<{ items: T[]; next: string | undefined }>,
): Promise<T[]> {
  const all: T[] = [];
  let token: string | undefined;
  do {
    const { items, next } = await ask(token);
    all.push(...items);
    token = next;
  } while (token && all.length < MOST_ITEMS);
  return all;
}
