// `npm run test:package [-- ROW…]`: what `npm pack` makes is used with the tools of applications, from the package
// registry. It takes minutes, so it stands beside the tests. Without names, every row runs. `HERMES_PACKAGE` names a
// packed package that is used instead of a new one.
import { rmSync } from "node:fs"
import { checkNext, checkVite, checkWebpack } from "./package/bundlers.ts"
import { checkInstallation } from "./package/install.ts"
import { checkBun, checkDeno, checkPnpm, checkYarn } from "./package/managers.ts"
import { checkBrowser, checkMsw, checkWorkers } from "./package/places.ts"
import { checkEffect, checkSdks, checkTypeScripts } from "./package/versions.ts"
import { countPassed, folder } from "./package/workspace.ts"

const rows: Readonly<Record<string, () => void | Promise<void>>> = {
  install: checkInstallation,
  webpack: checkWebpack,
  next: checkNext,
  vite: checkVite,
  workers: checkWorkers,
  browser: checkBrowser,
  msw: checkMsw,
  types: checkTypeScripts,
  sdks: checkSdks,
  effect: checkEffect,
  pnpm: checkPnpm,
  yarn: checkYarn,
  bun: checkBun,
  deno: checkDeno
}

const asked = process.argv.slice(2)
const unknown = asked.filter((name) => rows[name] === undefined)
if (unknown.length > 0) throw new Error(`unknown rows ${unknown.join(", ")}: ${Object.keys(rows).join(", ")}`)
try {
  for (const name of asked.length === 0 ? Object.keys(rows) : asked) await rows[name]?.()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.stdout.write(`${countPassed()} passed, 0 failed\n`)
