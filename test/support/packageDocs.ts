// The documentation inside the published package: a reference of every export in `dist/docs`, and `dist/llms.txt`, which
// also lists the README, the guides and the tours where the package has them.
import { renderLlms, sitePages, type Page } from "./site.ts"

/** True for pages whose source is not part of the package. */
const isAbsent = ({ source }: Page): boolean => source.startsWith(".github/") && !source.endsWith("CHANGELOG.md")

/** Path of a page, relative to `dist`. */
const linkOf = ({ path, section, source }: Page): string =>
  section === "Reference" ? `docs/${path.slice("reference/".length)}.md` : `../${source}`

/** The files by their paths below `dist`. */
export const renderPackageDocs = (pages: ReadonlyArray<Page> = sitePages()): ReadonlyMap<string, string> =>
  new Map([
    ...pages.filter(({ section }) => section === "Reference").map((page) => [linkOf(page), page.markdown] as const),
    [
      "llms.txt",
      renderLlms(
        pages.filter((page) => !isAbsent(page)),
        linkOf
      )
    ] as const
  ])
