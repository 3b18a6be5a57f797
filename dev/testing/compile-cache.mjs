/**
 * Loaded before each test file (`--import`): what Node strips and compiles is kept in
 * `.cache/compiled` for the next process. In a guest that is most of the time in which a test file
 * starts. Programs that a test starts do not inherit it.
 */
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

enableCompileCache(join(import.meta.dirname, '../../.cache/compiled'))
