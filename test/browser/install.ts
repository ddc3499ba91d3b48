// Before the tests of this folder: their packages.
import { join } from "node:path"
import { installPackages } from "../support/installPackages.ts"

export default function install(): void {
  installPackages(join(import.meta.dirname, "chat"))
}
