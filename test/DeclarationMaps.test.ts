// The check of declaration maps that `npm run test:package` makes of the installed package, on a small package.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { checkDeclarationMaps } from "./support/declarationMaps.ts"
import { root } from "./support/sources.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const source =
  "// A module.\nexport interface Shape { readonly side: number }\n\nexport const area = ({ side }: Shape): number => side * side\n"

describe("declaration maps", () => {
  it.effect("lead to sources of the package, and names to the lines that declare them", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryDirectory
      const file = join(folder, "src/Shape.ts")
      mkdirSync(join(folder, "src"))
      writeFileSync(file, source)
      const options = [
        "--declaration",
        "--declarationMap",
        "--emitDeclarationOnly",
        "--rootDir",
        "src",
        "--outDir",
        "dist",
        "--target",
        "es2024",
        "--types",
        ""
      ]
      execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...options, file], { cwd: folder })
      assert.deepStrictEqual(checkDeclarationMaps(folder), { count: 1, faults: [] })

      writeFileSync(file, `// Another line.\n${source}`)
      assert.deepStrictEqual(checkDeclarationMaps(folder).faults, [
        "dist/Shape.d.ts:1: line 2 of ../src/Shape.ts does not declare Shape",
        "dist/Shape.d.ts:4: line 4 of ../src/Shape.ts does not declare area"
      ])
      writeFileSync(file, "// A module.\n")
      assert.include(checkDeclarationMaps(folder).faults, "dist/Shape.d.ts:4: ../src/Shape.ts has no line 4")
      rmSync(file)
      assert.deepStrictEqual(checkDeclarationMaps(folder).faults, [
        "dist/Shape.d.ts: src/Shape.ts is not in the package"
      ])
      writeFileSync(
        join(folder, "dist/Shape.d.ts"),
        readFileSync(join(folder, "dist/Shape.d.ts"), "utf8").replace(/^\/\/# source.*/m, "")
      )
      assert.deepStrictEqual(checkDeclarationMaps(folder).faults, ["dist/Shape.d.ts: it has no map"])
    })
  )
})
