// Before the tests of this folder: their packages.
import { installPackages } from "../support/installPackages.ts"

export default function install(): void {
  installPackages(import.meta.dirname)
}
