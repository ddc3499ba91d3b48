// The versions of a documentation site: one folder for each, the list that their pages read, and a page that leads to
// the newest release.

/** `[major, minor, patch, rest]` of a version, or `undefined`. */
const parseVersion = (name: string) => {
  const found = /^(\d+)\.(\d+)\.(\d+)(-[\w.-]+)?$/.exec(name)
  return found === null ? undefined : { name, rest: found[4], numbers: found.slice(1, 4).map(Number) }
}

type Version = NonNullable<ReturnType<typeof parseVersion>>

/** A version before its final release comes after it. Of two such, the later name comes first. */
const compareRest = (a: string | undefined, b: string | undefined): number => {
  if (a === b) return 0
  if (a === undefined) return -1
  return b === undefined ? 1 : b.localeCompare(a, "en", { numeric: true })
}

const compareNewest = (a: Version, b: Version): number => {
  const differing = a.numbers.findIndex((number, index) => number !== b.numbers[index])
  return differing === -1 ? compareRest(a.rest, b.rest) : (b.numbers[differing] ?? 0) - (a.numbers[differing] ?? 0)
}

/** The versions among the names of folders, the newest first. */
export const findVersions = (folders: ReadonlyArray<string>): ReadonlyArray<string> =>
  folders
    .flatMap((name) => parseVersion(name) ?? [])
    .toSorted(compareNewest)
    .map(({ name }) => name)

/** The files beside the folders of the versions. The front page leads to the newest final release. */
export const renderVersions = (folders: ReadonlyArray<string>): ReadonlyMap<string, string> => {
  const versions = findVersions(folders)
  const newest = versions.find((version) => !version.includes("-")) ?? versions[0]
  const target = newest === undefined ? "" : `${newest}/index.html`
  return new Map([
    ["versions.js", `window.versions=${JSON.stringify(versions)}\n`],
    [
      "index.html",
      `<!doctype html>\n<meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${target}"><a href="${target}">Documentation</a>\n`
    ]
  ])
}
