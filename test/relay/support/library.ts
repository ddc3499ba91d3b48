// Where NeMo Relay's native library is for the tests of this folder: in a package of their own, which is installed
// under the Node that they run on, while the checkout's own packages may have been installed under an older one.
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

export const folder = fileURLToPath(new URL("..", import.meta.url))

const versionIn = (file: string, name?: string): string | undefined => {
  const content = JSON.parse(readFileSync(file, "utf8")) as {
    version?: string
    packages?: Record<string, { version?: string }>
  }
  return name === undefined ? content.version : content.packages?.[name]?.version
}

/** Whether the version that the lock file names is there, with the binary of some machine. */
export const isInstalled = (): boolean => {
  const installed = `${folder}node_modules/nemo-relay-node/package.json`
  return (
    existsSync(installed) &&
    versionIn(installed) === versionIn(`${folder}package-lock.json`, "node_modules/nemo-relay-node") &&
    readdirSync(`${folder}node_modules`).some((name) => name.startsWith("nemo-relay-node-"))
  )
}

/** For programs: modules find this library by the name of its package. */
export const preload = `--import=${new URL("preload.js", import.meta.url).href}`
