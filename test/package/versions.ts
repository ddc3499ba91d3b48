// Releases of other packages with which the package works: TypeScript, the SDKs of providers, and `effect`.
import { join } from "node:path"
import { entries } from "../support/entries.ts"
import { models, protocols } from "./programs.ts"
import { expect, makeWorkspace, releases, runNode, type Workspace } from "./workspace.ts"

/** Writes an import of each entry and settings that check the declarations of all packages. */
const writeConsumers = ({ write }: Workspace): void => {
  const files = entries().map(({ specifier }, at) => {
    const name = `entry-${at}.ts`
    write(
      name,
      `import * as Entry from "${specifier}"\nexport const names: ReadonlyArray<string> = Object.keys(Entry)\n`
    )
    return name
  })
  for (const resolution of ["bundler", "nodenext"])
    write(
      `tsconfig.${resolution}.json`,
      JSON.stringify({
        compilerOptions: {
          target: "ES2024",
          module: resolution === "bundler" ? "ESNext" : "NodeNext",
          moduleResolution: resolution,
          strict: true,
          exactOptionalPropertyTypes: true,
          noUncheckedIndexedAccess: true,
          verbatimModuleSyntax: true,
          skipLibCheck: false,
          noEmit: true,
          lib: ["ES2024", "ESNext.Disposable", "DOM"],
          types: []
        },
        files
      })
    )
}

const checkTypes = (what: string, compiler: string, { modules, path }: Workspace): void => {
  for (const resolution of ["bundler", "nodenext"]) {
    const args = [join(modules, compiler, "bin/tsc"), "-p", `tsconfig.${resolution}.json`]
    expect(`types hold: ${what}, ${resolution}`, runNode(args, path), "")
  }
}

/** Every entry type-checks under three majors of TypeScript, with the declarations of all packages. */
export const checkTypeScripts = (): void => {
  const aliases = releases.typescripts.map((version) => `ts${version}@npm:typescript@${version}`)
  const workspace = makeWorkspace("types", [releases.openai, ...aliases])
  writeConsumers(workspace)
  for (const version of releases.typescripts) checkTypes(`TypeScript ${version}`, `ts${version}`, workspace)
}

/** The oldest and the newest release of each major of the SDKs are typed and send. */
export const checkSdks = (): void => {
  const workspace = makeWorkspace("sdks", ["typescript@7.0.2"])
  workspace.write("models.js", models)
  workspace.write("protocols.js", protocols)
  writeConsumers(workspace)
  const sdks = {
    openai: { versions: ["5.0.0", "5", "6.0.0", "6", "7.0.0", "7"], names: ["chat", "responses"] },
    "@anthropic-ai/sdk": { versions: ["0.60.0", "0", "1.0.0", "1"], names: ["messages"] }
  }
  for (const [sdk, { names, versions }] of Object.entries(sdks))
    for (const version of versions) {
      workspace.install(`${sdk}@${version}`)
      const answers = names.flatMap((name) => [name, name]).join("\n")
      expect(`${sdk} ${version} sends`, runNode(["protocols.js", ...names], workspace.path), `${answers}\n`)
      checkTypes(`${sdk} ${version}`, "typescript", workspace)
    }
}

/** The oldest and the newest release of `effect` are typed and run, in one copy. */
export const checkEffect = (): void => {
  const workspace = makeWorkspace("effect", ["typescript@7.0.2", releases.openai])
  workspace.write("models.js", models)
  workspace.write("protocols.js", protocols)
  writeConsumers(workspace)
  for (const version of ["4.1.0", "4"]) {
    workspace.install(`effect@${version}`)
    expect(`effect ${version} runs`, runNode(["protocols.js", "chat"], workspace.path), "chat\nchat\n")
    checkTypes(`effect ${version}`, "typescript", workspace)
  }
}
