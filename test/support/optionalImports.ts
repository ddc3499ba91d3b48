// Writes the imports of optional packages into `try`: bundlers such as webpack and Turbopack fail for a package that is
// not installed, unless its import is there. Sources mark them with `.catch(rethrowImport)`.
import type { Plugin } from "rolldown"

const marked = /(?<import>import\([^()]*"[^"]+"\))\s*\.catch\(\s*(?:OptionalPackage\.)?rethrowImport\s*\)/gu

/** The plugin for the modules below a folder. It needs `experimental.nativeMagicString`. */
export const optionalImports = (folder: string): Plugin => ({
  name: "optional-imports",
  transform: (code, id, { magicString }) => {
    if (magicString === undefined || !id.startsWith(folder) || !code.includes("rethrowImport")) return null
    for (const { 0: text, groups, index } of code.matchAll(marked))
      magicString.overwrite(
        index,
        index + text.length,
        `(async () => { try { return await ${groups?.["import"]} } catch (error) { throw error } })()`
      )
    return { code: magicString }
  }
})
