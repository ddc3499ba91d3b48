// Which modules of a bundle import which, and what is loaded with one.
import { type InputOptions, rolldown } from "rolldown"

type Imports = ReadonlyMap<string, ReadonlyArray<string>>

/** What each module of a bundle imports, without and with what it loads later. */
export const importsOfModules = async (
  options: InputOptions
): Promise<{ readonly imports: Imports; readonly withLate: Imports }> => {
  const imports = new Map<string, ReadonlyArray<string>>()
  const withLate = new Map<string, ReadonlyArray<string>>()
  const bundle = await rolldown({
    ...options,
    plugins: [
      options.plugins,
      {
        name: "imports",
        moduleParsed: ({ dynamicallyImportedIds, id, importedIds }) => {
          imports.set(id, importedIds)
          withLate.set(id, [...importedIds, ...dynamicallyImportedIds])
        }
      }
    ]
  })
  await bundle.generate({ format: "esm" })
  await bundle.close()
  return { imports, withLate }
}

/** Modules and all that they import, which are loaded with them. */
export const closureOf = (modules: ReadonlyArray<string>, imports: Imports): ReadonlySet<string> => {
  const found = new Set(modules)
  for (const module of found) for (const imported of imports.get(module) ?? []) found.add(imported)
  return found
}
