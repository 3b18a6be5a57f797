/**
 * The bare guest (see `KernelCommand.isBare`): whether this is one, and the nft with which a test
 * looks there.
 */

/** The folder of the programs that nobody finds there; `dev/kernel/guest.sh` sets it. */
const FOLDER = process.env['KUBE_IPVS_OUT_OF_PATH']

export const isBareGuest = FOLDER !== undefined

/** Debian's nft: in a bare guest by its path, elsewhere as in PATH. */
export const NFT = FOLDER === undefined ? 'nft' : `${FOLDER}/nft`
