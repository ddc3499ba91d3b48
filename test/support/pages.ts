// Before any test: the pages are built from their modules.
import { buildPages } from "../page.ts"

export const setup = (): Promise<void> => buildPages()
