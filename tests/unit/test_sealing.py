"""A sealed secret opens with its key, for the job and the place that it belongs to, and in no other way."""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from pathlib import Path

import pytest

from backstay.domain.sealing import (
    KEYS_MAX,
    NONCE_BYTES,
    VERSION,
    Belonging,
    key_of,
    keys_in,
    seal,
    unseal,
)
from backstay.errors import InvalidRequest, InvalidSetting, SecretKeyMissing, SecretUnopened
from backstay.settings import Settings
from backstay.vault import KeyFile, Vault

KEY, OTHER = key_of(b"k" * 32), key_of(b"o" * 32)
HERE = Belonging("uid1", "action.request.authentication.password")
NONCE = b"n" * NONCE_BYTES
SECRET = "hunter2 ü \U0001f600"


def written(number: int) -> str:
    return b64encode(bytes([number]) * 32).decode()


def sealed() -> str:
    return seal(SECRET, HERE, key=KEY, nonce=NONCE)


# One seal


def test_a_secret_opens_with_its_key_where_it_belongs():
    assert unseal(sealed(), HERE, key=KEY) == SECRET
    assert "hunter2" not in sealed()
    assert sealed().startswith(f"{VERSION}.{KEY.id}.")


@pytest.mark.parametrize("secret", ["", "x" * 16_384])
def test_of_any_length(secret: str):
    assert unseal(seal(secret, HERE, key=KEY, nonce=NONCE), HERE, key=KEY) == secret


@pytest.mark.parametrize(
    "elsewhere",
    [
        Belonging("uid2", HERE.place),
        Belonging(HERE.uid, "action.errorAction.request.authentication.password"),
        # Where one ends and the other begins is part of it.
        Belonging(f"{HERE.uid}{HERE.place}", ""),
    ],
)
def test_it_does_not_open_for_another_job_or_in_another_place(elsewhere: Belonging):
    with pytest.raises(SecretUnopened, match="altered, or belongs to something else"):
        unseal(sealed(), elsewhere, key=KEY)


def test_it_does_not_open_with_another_key_whatever_its_header_says():
    with pytest.raises(SecretUnopened):
        unseal(sealed(), HERE, key=OTHER)
    with pytest.raises(SecretUnopened):
        unseal(sealed().replace(KEY.id, OTHER.id), HERE, key=OTHER)
    with pytest.raises(SecretUnopened):
        unseal(sealed().replace(KEY.id, OTHER.id), HERE, key=KEY)


@pytest.mark.parametrize(
    "downgraded",
    [
        "hunter2",
        "",
        "bs0.{rest}",
        "bs2.{rest}",
        "BS1.{rest}",
        "{rest}",
        "bs1..{body}",
        "bs1.{rest}.more",
        "bs1.{id}.",
        "bs1.{id}.AAAA",
        "bs1.{id}.no*base64",
        "bs1.{rest}\n",
        "bs1.{id}.{body}x",
    ],
)
def test_what_is_not_sealed_as_it_must_be_is_refused_and_not_shown(downgraded: str):
    _, key_id, body = sealed().split(".")
    row = downgraded.format(rest=f"{key_id}.{body}", id=key_id, body=body)

    with pytest.raises(SecretUnopened) as refused:
        Vault(b64encode(KEY.material).decode()).open(row, HERE)

    assert "hunter2" not in str(refused.value)
    assert body not in str(refused.value)


def test_no_bit_of_it_can_be_changed():
    text = sealed()
    for place in range(len(text)):
        altered = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(SecretUnopened):
            Vault(b64encode(KEY.material).decode()).open(altered, HERE)


# Keys


def test_the_first_key_seals_and_all_of_them_open():
    old, both = Vault(written(1)), Vault(f" {written(2)} , {written(1)}")

    assert both.open(old.seal(SECRET, HERE), HERE) == SECRET
    with pytest.raises(SecretUnopened, match="a key that is not here"):
        old.open(both.seal(SECRET, HERE), HERE)


def test_the_same_secret_is_never_sealed_alike():
    vault = Vault(written(1))

    assert len({vault.seal(SECRET, HERE) for _ in range(100)}) == 100


@pytest.mark.parametrize("wrong", ["hunter2", "aGk=", "ü", f"{written(1)},hunter2", "A" * 44])
def test_a_setting_that_is_no_key_is_refused_at_start_and_not_shown(wrong: str):
    with pytest.raises(InvalidSetting, match="openssl rand -base64 32") as refused:
        Settings(secret_key=wrong)

    assert wrong not in str(refused.value)


def test_a_setting_is_not_shown_with_the_others():
    assert written(1) not in repr(Settings(secret_key=written(1)))
    assert b64encode(KEY.material).decode() not in repr(KEY)
    assert repr(KEY.material) not in repr(KEY)
    with pytest.raises(InvalidSetting) as refused:
        Settings.load({"secret_key": 4711}, environment={})
    assert "4711" not in str(refused.value)


def test_there_are_not_too_many_keys():
    with pytest.raises(InvalidRequest, match=f"{KEYS_MAX} are kept"):
        keys_in(",".join(written(number) for number in range(KEYS_MAX + 1)))


def test_without_a_key_nothing_is_sealed_and_the_remedy_is_named():
    with pytest.raises(SecretKeyMissing, match="set BACKSTAY_SECRET_KEY"):
        Vault().seal(SECRET, HERE)


# The file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db.key"


def test_a_file_is_made_when_something_is_to_be_sealed_for_its_owner_only(path: Path):
    before = os.umask(0)
    try:
        row = Vault(file=KeyFile(path)).seal(SECRET, HERE)
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Vault(file=KeyFile(path)).open(row, HERE) == SECRET
    assert list(path.parent.iterdir()) == [path]


def test_opening_makes_no_file(path: Path):
    with pytest.raises(SecretUnopened, match="not here"):
        Vault(file=KeyFile(path)).open(sealed(), HERE)

    assert not path.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_file_that_others_may_read_or_write_is_refused(path: Path, mode: int):
    vault = Vault(file=KeyFile(path))
    row = vault.seal(SECRET, HERE)
    path.chmod(mode)

    with pytest.raises(SecretKeyMissing, match=f"chmod 600 {path}"):
        vault.seal(SECRET, HERE)
    with pytest.raises(SecretUnopened, match="chmod 600"):
        vault.open(row, HERE)
    path.chmod(0o600)
    assert vault.open(row, HERE) == SECRET


@pytest.mark.parametrize("content", ["", "# only words\n", "hunter2\n", "\xff" * 20_000])
def test_a_file_that_holds_no_key_is_refused_and_not_written_over(path: Path, content: str):
    path.write_text(content)
    path.chmod(0o600)

    with pytest.raises(SecretKeyMissing) as refused:
        Vault(file=KeyFile(path)).seal(SECRET, HERE)

    assert "hunter2" not in str(refused.value)
    assert path.read_text() == content


def test_what_is_no_file_is_not_read():
    with pytest.raises(SecretKeyMissing, match="the key file /dev/null is no file"):
        KeyFile(Path("/dev/null")).keys()


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path):
    with pytest.raises(SecretKeyMissing, match="cannot be written"):
        Vault(file=KeyFile(tmp_path / "nowhere" / "key")).seal(SECRET, HERE)


def test_where_hosts_share_a_store_none_makes_a_file_by_itself(path: Path):
    with pytest.raises(SecretKeyMissing, match="rotate-key"):
        Vault(file=KeyFile(path, may_make=False)).seal(SECRET, HERE)

    assert not path.exists()


def test_who_knows_an_old_key_opens_what_a_new_one_sealed_since_it_is_looked_up(path: Path):
    server, another = Vault(file=KeyFile(path)), Vault(file=KeyFile(path))
    old = server.seal(SECRET, HERE)

    new_key = KeyFile(path).add()

    new = another.seal(SECRET, HERE)
    assert new.startswith(f"{VERSION}.{new_key.id}.")
    assert [server.open(row, HERE) for row in (old, new)] == [SECRET, SECRET]
    assert server.sealing_key().id == new_key.id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_does_not_grow_without_end(path: Path):
    file = KeyFile(path)
    made = [file.add().id for _ in range(KEYS_MAX + 2)]

    assert [key.id for key in file.made()] == made[: -KEYS_MAX - 1 : -1]
