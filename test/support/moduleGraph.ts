// Which modules of a bundle import which, and what is loaded with one.
import { type InputOptions, type Plugin, rolldown } from "rolldown"

type Imports = ReadonlyMap<string, ReadonlyArray<string>>

/** What each module of a bundle imports, without and with what it loads later. */
export interface ModuleImports {
  readonly imports: Imports
  readonly withLate: Imports
}

/** Records the imports of the modules of a bundle, in a plugin of it. */
export const recordImports = (): ModuleImports & { readonly plugin: Plugin } => {
  const imports = new Map<string, ReadonlyArray<string>>()
  const withLate = new Map<string, ReadonlyArray<string>>()
  return {
    imports,
    withLate,
    plugin: {
      name: "imports",
      moduleParsed: ({ dynamicallyImportedIds, id, importedIds }) => {
        imports.set(id, importedIds)
        withLate.set(id, [...importedIds, ...dynamicallyImportedIds])
      }
    }
  }
}

/** Reads the imports of a bundle that is not written. */
export const importsOfModules = async (options: InputOptions): Promise<ModuleImports> => {
  const { plugin, ...recorded } = recordImports()
  const bundle = await rolldown({ ...options, plugins: [options.plugins, plugin] })
  await bundle.generate({ format: "esm" })
  await bundle.close()
  return recorded
}

/** Modules and all that they import, which are loaded with them. */
export const closureOf = (modules: ReadonlyArray<string>, imports: Imports): ReadonlySet<string> => {
  const found = new Set(modules)
  for (const module of found) for (const imported of imports.get(module) ?? []) found.add(imported)
  return found
}
